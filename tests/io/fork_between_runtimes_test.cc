// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fork() after a runtime has ended: the child may have a runtime of its own, and the parent another one, though both
// have the epoll instances and rings of the one that has ended, as they have the same files.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

int StatusOf(pid_t child) {
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

#if !WEFT_TSAN                        // It allows no threads in the child of a process with threads.
constexpr unsigned kHangsAfter = 20;  // seconds

// A byte goes around between two fibers, by pipes, so that both wait for each turn.
bool PassAByteAround(int turns) {
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& ends : pipes) {
    if (::pipe(ends.data()) != 0) return false;
  }
  std::atomic<bool> good{true};
  const auto pass_on = [&](int from, int to) {
    for (int turn = 0; good && turn < turns; ++turn) {
      char byte = 0;
      if (WaitFd(from, POLLIN, Soon()).events != POLLIN) good = false;
      if (::read(from, &byte, 1) != 1 || ::write(to, &byte, 1) != 1) good = false;
    }
  };
  Fiber one([&] { pass_on(pipes[0][0], pipes[1][1]); });
  Fiber two([&] { pass_on(pipes[1][0], pipes[0][1]); });
  const char byte = 'x';
  if (::write(pipes[0][1], &byte, 1) != 1) good = false;
  one.Join();
  two.Join();
  for (auto& ends : pipes) {
    for (const int end : ends) CloseFd(end);
  }
  return good;
}

TEST(ForkBetweenRuntimes, TheRuntimesOfAParentAndItsChildDoNotTakeEachOthersEvents) {
  {
    const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
    ASSERT_TRUE(PassAByteAround(10));
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(kHangsAfter);
    StartRuntime(fiber::OptionsOf({2, 1}));
    const bool good = PassAByteAround(3000);
    ::_exit(good && TerminateRuntime() == 0 ? 0 : 1);
  }
  {
    const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
    EXPECT_TRUE(PassAByteAround(3000));
  }
  EXPECT_EQ(StatusOf(child), 0);
}

// Nobody polled for a worker that slept beside one that computed.
TEST(ForkBetweenRuntimes, InAChildReadinessIsSeenBesideAFiberThatComputes) {
  {
    const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
    ASSERT_TRUE(PassAByteAround(10));
  }
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(kHangsAfter);
    StartRuntime(fiber::OptionsOf({2, 1}));
    std::array<int, 2> computes{};
    std::array<int, 2> ends{};
    if (::pipe(computes.data()) != 0 || ::pipe(ends.data()) != 0) ::_exit(1);
    std::atomic<bool> over{false};
    std::atomic<int> waiting{0};
    std::atomic<bool> computing{false};
    Fiber long_one([&] {
      ++waiting;
      (void)WaitFd(computes[0], POLLIN);
      computing = true;
      while (!over) {
      }
    });
    Fiber reader([&] {
      ++waiting;
      (void)WaitFd(ends[0], POLLIN);
      over = true;
    });
    // Both workers sleep, one of them in the poll; which computes then, and the other one goes on sleeping.
    const scheduling_group::IdleWorkers& idle = scheduling_group::AllGroups()[0]->idle_workers();
    while (waiting != 2 || idle.sleepers().Count() != 2) std::this_thread::yield();
    const char byte = 'x';
    if (::write(computes[1], &byte, 1) != 1) ::_exit(1);
    while (!computing || idle.sleepers().Empty()) std::this_thread::yield();
    if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
    reader.Join();
    long_one.Join();
    ::_exit(TerminateRuntime() == 0 ? 0 : 1);
  }
  EXPECT_EQ(StatusOf(child), 0);
}
#endif

TEST(ForkBetweenRuntimes, AChildThatClosesItsCopyOfADescriptorDoesNotTakeItFromTheParentsNextRuntime) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
  TcpStream stream{Descriptor(ends[0])};
  const auto fiber_gets_a_byte = [&] {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    bool good = false;
    std::atomic<bool> reads{false};
    Fiber reader([&] {
      char bytes[2];
      const Deadline deadline = Soon();
      reads = true;
      good = stream.ReadSome(bytes, sizeof(bytes), deadline).bytes == 1;
      EXPECT_FALSE(deadline.expired()) << "nobody was told";
    });
    while (!reads || scheduling_group::AllGroups()[0]->idle_workers().sleepers().Empty()) std::this_thread::yield();
    const char byte = 'x';
    EXPECT_EQ(::write(ends[1], &byte, 1), 1);
    reader.Join();
    return good;
  };
  ASSERT_TRUE(fiber_gets_a_byte());
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    stream.Close();
    ::_exit(0);
  }
  EXPECT_EQ(StatusOf(child), 0);
  EXPECT_TRUE(fiber_gets_a_byte());
  stream.Close();
  ::close(ends[1]);
}

}  // namespace
}  // namespace weft::io
