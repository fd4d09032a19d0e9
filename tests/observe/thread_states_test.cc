// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/thread_states.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "weft/tests/observe/threads_are_seen.h"

namespace weft::observe {
namespace {

using Kind = ThreadState::Kind;

ThreadState Parsed(const std::string& line) {
  ThreadState state;
  ParseSystemCall(line, {7, 17}, &state);
  return state;
}

std::string CallOf(long number, const std::string& arguments) {
  return std::to_string(number) + " " + arguments + " 0x7ffd1000 0x7fa02000\n";
}

TEST(ThreadStates, ALineOfTheKernelIsUnderstood) {
  EXPECT_EQ(Parsed("running\n").kind, Kind::kRuns);
  EXPECT_EQ(Parsed("").kind, Kind::kUnreadable);
  EXPECT_EQ(Parsed("nonsense 1 2\n").kind, Kind::kUnreadable);
  EXPECT_EQ(Parsed("-1 0x7ffd1000 0x7fa02000\n").kind, Kind::kSystemCall);
  // A private FUTEX_WAIT_BITSET, by the realtime clock or not; with a time-out; of another process's, too.
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x189 0x0 0x0 0x0 0xffffffff")).kind, Kind::kForThread);
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x80 0x0 0x0 0x0 0x0")).kind, Kind::kForThread);
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x89 0x0 0x7ffd2000 0x0 0xffffffff")).kind, Kind::kForTime);
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x109 0x0 0x0 0x0 0xffffffff")).kind, Kind::kSystemCall);
  // pthread_join() of thread 17, and of one that is no thread of ours. FUTEX_LOCK_PI.
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x109 0x11 0x0 0x0 0xffffffff")).kind, Kind::kForThread);
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x109 0x12 0x0 0x0 0xffffffff")).kind, Kind::kSystemCall);
  EXPECT_EQ(Parsed(CallOf(SYS_futex, "0x1000 0x86 0x0 0x0 0x0 0x0")).kind, Kind::kSystemCall);
  const ThreadState polls = Parsed(CallOf(SYS_epoll_pwait, "0x5 0x7ffd3000 0x100 0xffffffff 0x0 0x8"));
  EXPECT_EQ(polls.kind, Kind::kPolls);
  EXPECT_EQ(polls.descriptor, 5);
  EXPECT_EQ(Parsed(CallOf(SYS_epoll_pwait, "0x5 0x7ffd3000 0x100 0x64 0x0 0x8")).kind, Kind::kSystemCall);
  const ThreadState reads = Parsed(CallOf(SYS_read, "0x5 0x7ffd3000 0x100 0x0 0x0 0x0"));
  EXPECT_EQ(reads.kind, Kind::kSystemCall);
  EXPECT_EQ(reads.system_call, SYS_read);
}

// Runs `wait` in a thread, until it is seen so; then `end`, and it ends.
void ExpectKind(Kind kind, const std::function<void()>& wait, const std::function<void()>& end) {
  std::thread waiter([&] {
    ::pthread_setname_np(::pthread_self(), "Waiter");
    wait();
  });
  for (bool seen = false; !seen;) {
    const std::optional<std::vector<ThreadState>> threads = ReadThreads();
    ASSERT_TRUE(threads);
    for (const ThreadState& thread : *threads) seen |= thread.name == "Waiter" && thread.kind == kind;
  }
  end();
  waiter.join();
}

TEST(ThreadStates, WhatThreadsDoIsSeen) {
  if (!ThreadsAreSeen()) GTEST_SKIP() << "nothing is known of threads";
  std::mutex mutex;
  std::unique_lock lock(mutex);
  ExpectKind(
      Kind::kForThread, [&] { const std::scoped_lock other(mutex); }, [&] { lock.unlock(); });
  std::condition_variable may_end;
  bool ends = false;
  const auto end = [&] {
    const std::scoped_lock guard(mutex);
    ends = true;
    may_end.notify_all();
  };
  ExpectKind(
      Kind::kForTime,
      [&] {
        std::unique_lock own(mutex);
        may_end.wait_for(own, std::chrono::hours(1), [&] { return ends; });
      },
      end);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  ExpectKind(
      Kind::kSystemCall,
      [&] {
        char byte = 0;
        EXPECT_EQ(::read(pipe[0], &byte, 1), 1);
      },
      [&] { EXPECT_EQ(::write(pipe[1], "x", 1), 1); });
  for (const int fd : pipe) ::close(fd);
}

// A child process that stops a thread of ours as a debugger does, and lets it go when it is destroyed.
class Stopper {
 public:
  explicit Stopper(pid_t thread) {
    ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // Where Yama asks for it.
    EXPECT_EQ(::pipe(go_on_.data()), 0);
    EXPECT_EQ(::pipe(stopped_.data()), 0);
    child_ = ::fork();
    if (child_ == 0) Run(thread);
    char answer = 'n';
    EXPECT_EQ(::read(stopped_[0], &answer, 1), 1);
    has_stopped_ = answer == 'y';
  }
  ~Stopper() {
    EXPECT_EQ(::write(go_on_[1], "x", 1), 1);
    EXPECT_EQ(::waitpid(child_, nullptr, 0), child_);
    for (const int fd : {go_on_[0], go_on_[1], stopped_[0], stopped_[1]}) ::close(fd);
  }
  Stopper(const Stopper&) = delete;
  Stopper& operator=(const Stopper&) = delete;
  // False: the system allows it not.
  bool has_stopped() const { return has_stopped_; }

 private:
  [[noreturn]] void Run(pid_t thread) const {
    const bool stopped = ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0 &&
                         ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0 &&
                         ::waitpid(thread, nullptr, __WALL) == thread;
    char byte = stopped ? 'y' : 'n';
    if (::write(stopped_[1], &byte, 1) == 1) static_cast<void>(!::read(go_on_[0], &byte, 1));
    ::_exit(0);  // Which detaches it.
  }

  std::array<int, 2> go_on_{};
  std::array<int, 2> stopped_{};
  pid_t child_ = -1;
  bool has_stopped_ = false;
};

// It seems to be in its system call. But its wait was ended, and a wake-up since then is not lost: it looks again.
TEST(ThreadStates, AThreadThatADebuggerHasStoppedIsNotAsleep) {
  if (!ThreadsAreSeen()) GTEST_SKIP() << "nothing is known of threads";
  std::mutex mutex;
  std::unique_lock lock(mutex);
  pid_t tid = 0;
  const auto look = [&tid] {
    const std::vector<ThreadState> threads = ReadThreads().value();
    for (const ThreadState& thread : threads) {
      if (thread.name != "Waiter") continue;
      tid = thread.tid;
      return thread.kind;
    }
    return Kind::kRuns;
  };
  std::thread waiter([&] {
    ::pthread_setname_np(::pthread_self(), "Waiter");
    const std::scoped_lock other(mutex);
  });
  while (look() != Kind::kForThread) continue;
  bool allowed = false;
  {
    const Stopper stopper(tid);
    allowed = stopper.has_stopped();
    EXPECT_TRUE(!allowed || look() == Kind::kStopped);
  }
  while (look() != Kind::kForThread) continue;
  lock.unlock();
  waiter.join();
  if (!allowed) GTEST_SKIP() << "the system allows no ptrace()";
}

TEST(ThreadStates, HandledSignalsAreKnown) {
  const std::optional<std::uint64_t> before = HandledSignals();
  ASSERT_TRUE(before);
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  struct sigaction former = {};
  ::sigaction(SIGUSR1, &action, &former);
  EXPECT_EQ(*HandledSignals(), *before | std::uint64_t{1} << (SIGUSR1 - 1));
  ::sigaction(SIGUSR1, &former, nullptr);
  struct sigaction fault = {};
  ::sigaction(SIGTRAP, &action, &fault);
  EXPECT_EQ(HandledSignals(), before);
  ::sigaction(SIGTRAP, &fault, nullptr);
}

}  // namespace
}  // namespace weft::observe
