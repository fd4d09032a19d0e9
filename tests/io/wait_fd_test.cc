// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/wait_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_stream.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class WaitFdTest : public IoTest {
 protected:
  // Those that wait are registered.
  [[nodiscard]] bool AwaitRegistered(std::uint32_t descriptors) {
    return Reaches([&] { return runtime_.counts().descriptors >= descriptors; });
  }
};
WEFT_INSTANTIATE_IO_SHAPES(WaitFdTest);

struct Pipe {
  Pipe() {
    int both[2];
    if (::pipe2(both, O_NONBLOCK | O_CLOEXEC) != 0) std::abort();
    read = both[0];
    write = both[1];
  }
  ~Pipe() {
    CloseRead();
    CloseWrite();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void WriteByte() { EXPECT_EQ(::write(write, "x", 1), 1); }
  void ReadByte() {
    char byte;
    EXPECT_EQ(::read(read, &byte, 1), 1);
  }
  void Fill() {
    char much[4096] = {};
    while (::write(write, much, sizeof(much)) > 0) {
    }
  }
  void CloseRead() {
    if (read >= 0) Close(std::exchange(read, -1));
  }
  void CloseWrite() {
    if (write >= 0) Close(std::exchange(write, -1));
  }
  static void Close(int fd) { EXPECT_FALSE(CloseFd(fd)); }
  int read;
  int write;
};

TEST_P(WaitFdTest, WhatIsReadyAlreadyIsToldAtOnce) {
  Pipe pipe;
  pipe.WriteByte();
  InFiberAndInThread([&] {
    const WaitFdResult readable = WaitFd(pipe.read, POLLIN, Soon());
    EXPECT_FALSE(readable.error);
    EXPECT_EQ(readable.events, POLLIN);
    const WaitFdResult writable = WaitFd(pipe.write, POLLOUT, Soon());
    EXPECT_FALSE(writable.error);
    EXPECT_EQ(writable.events, POLLOUT);
  });
}

TEST_P(WaitFdTest, WaitsUntilItIsReadable) {
  for (const bool in_fiber : {true, false}) {
    Pipe pipe;
    std::atomic<bool> written{false};
    Actor waiter(in_fiber, [&] {
      for (int i = 0; i < 100; ++i) {
        const WaitFdResult ready = WaitFd(pipe.read, POLLIN, Soon());
        EXPECT_FALSE(ready.error);
        EXPECT_EQ(ready.events, POLLIN);
        EXPECT_TRUE(written.exchange(false));
        pipe.ReadByte();
      }
    });
    for (int i = 0; i < 100; ++i) {
      written = true;
      pipe.WriteByte();
      ASSERT_TRUE(Reaches([&] { return !written; }));
    }
  }
}

TEST_P(WaitFdTest, WaitsUntilItIsWritable) {
  for (const bool in_fiber : {true, false}) {
    Pipe pipe;
    pipe.Fill();
    std::atomic<bool> told{false};
    Actor waiter(in_fiber, [&] {
      const WaitFdResult ready = WaitFd(pipe.write, POLLOUT, Soon());
      EXPECT_FALSE(ready.error);
      EXPECT_EQ(ready.events, POLLOUT);
      told = true;
    });
    ASSERT_TRUE(!in_fiber || AwaitRegistered(1));
    EXPECT_FALSE(told);
    char much[65536];
    EXPECT_GT(::read(pipe.read, much, sizeof(much)), 0);
    waiter.Join();
    EXPECT_TRUE(told);
  }
}

TEST_P(WaitFdTest, TheEndOfAPipeIsTold) {
  for (const bool in_fiber : {true, false}) {
    Pipe pipe;
    Actor waiter(in_fiber, [&] {
      const WaitFdResult ready = WaitFd(pipe.read, POLLIN, Soon());
      EXPECT_FALSE(ready.error);
      EXPECT_EQ(ready.events & POLLHUP, POLLHUP);  // Not asked for, but poll(2) tells it too.
    });
    ASSERT_TRUE(!in_fiber || AwaitRegistered(1));
    pipe.CloseWrite();
  }
}

TEST_P(WaitFdTest, EventsOfAnEventfdAndATimerfd) {
  InFiberAndInThread([] {
    const int event = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    std::thread setter([event] {
      const std::uint64_t seven = 7;
      EXPECT_EQ(::write(event, &seven, sizeof(seven)), 8);
    });
    EXPECT_EQ(WaitFd(event, POLLIN, Soon()).events, POLLIN);
    std::uint64_t count = 0;
    EXPECT_EQ(::read(event, &count, sizeof(count)), 8);
    EXPECT_EQ(count, 7u);
    setter.join();
    EXPECT_FALSE(CloseFd(event));

    const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    const itimerspec each{.it_interval = {.tv_sec = 0, .tv_nsec = 2'000'000},
                          .it_value = {.tv_sec = 0, .tv_nsec = 2'000'000}};
    const auto begin = Steady::now();
    EXPECT_EQ(::timerfd_settime(timer, 0, &each, nullptr), 0);
    for (std::uint64_t expired = 0; expired < 5;) {
      EXPECT_EQ(WaitFd(timer, POLLIN, Soon()).events, POLLIN);
      std::uint64_t some = 0;
      EXPECT_EQ(::read(timer, &some, sizeof(some)), 8);
      EXPECT_GT(some, 0u);
      expired += some;
    }
    EXPECT_GE(Steady::now() - begin, 10ms);
    EXPECT_FALSE(CloseFd(timer));
  });
}

TEST_P(WaitFdTest, ADeadlineEndsIt) {
  Pipe pipe;
  InFiberAndInThread([&] {
    for (int i = 0; i < 3; ++i) {
      const auto begin = Steady::now();
      const WaitFdResult ready = WaitFd(pipe.read, POLLIN, 5ms);
      EXPECT_EQ(ready.error, std::errc::timed_out);
      EXPECT_EQ(ready.events, 0);
      EXPECT_GE(Steady::now() - begin, 5ms);
    }
  });
  // And the event that comes later disturbs nobody.
  pipe.WriteByte();
  InFiber([&] { EXPECT_EQ(WaitFd(pipe.read, POLLIN, Soon()).events, POLLIN); });
}

TEST_P(WaitFdTest, ADeadlineThatHasPassedIsALook) {
  Pipe pipe;
  const Deadline past = Steady::now();
  InFiberAndInThread([&] { EXPECT_EQ(WaitFd(pipe.read, POLLIN, past).error, std::errc::timed_out); });
  pipe.WriteByte();
  InFiberAndInThread([&] {
    const WaitFdResult ready = WaitFd(pipe.read, POLLIN, past);
    EXPECT_FALSE(ready.error);
    EXPECT_EQ(ready.events, POLLIN);
  });
}

// What is left until it is not a number of nanoseconds.
TEST_P(WaitFdTest, TheFirstOfAllTimePointsHasPassed) {
  Pipe pipe;
  const Deadline first = Deadline::TimePoint::min();
  InFiberAndInThread([&] { EXPECT_EQ(WaitFd(pipe.read, POLLIN, first).error, std::errc::timed_out); });
}

TEST_P(WaitFdTest, ACancellationEndsIt) {
  Pipe pipe;
  Fiber waiter([&] {
    EXPECT_EQ(WaitFd(pipe.read, POLLIN, Soon()).error, std::errc::operation_canceled);
    EXPECT_EQ(WaitFd(pipe.read, POLLIN, Soon()).error, std::errc::operation_canceled) << "and the next one";
    EXPECT_EQ(WaitFd(pipe.write, POLLOUT, Soon()).events, POLLOUT) << "what is ready is told";
  });
  ASSERT_TRUE(AwaitRegistered(1));
  EXPECT_TRUE(waiter.Cancel());
  waiter.Join();
}

TEST_P(WaitFdTest, AllThatWaitForTheSameAreTold) {
  Pipe pipe;
  constexpr int kWaiters = 20;
  std::atomic<int> begun{0};
  std::atomic<int> told{0};
  std::vector<Fiber> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      ++begun;
      EXPECT_EQ(WaitFd(pipe.read, POLLIN, Soon()).events, POLLIN);
      ++told;
    });
  }
  ASSERT_TRUE(Reaches([&] { return begun == kWaiters; }));
  EXPECT_EQ(told, 0);
  pipe.WriteByte();
  for (Fiber& waiter : waiters) waiter.Join();
  EXPECT_EQ(told, kWaiters);
}

TEST_P(WaitFdTest, EachIsToldOnlyWhatItAskedFor) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  char much[4096] = {};
  while (::write(sockets[0], much, sizeof(much)) > 0) {
  }
  std::atomic<bool> readable{false};
  std::atomic<bool> writable{false};
  std::atomic<bool> ended{false};
  Fiber reader([&] {
    EXPECT_EQ(WaitFd(sockets[0], POLLIN, Soon()).events, POLLIN);
    readable = true;
  });
  ASSERT_TRUE(AwaitRegistered(1));
  Fiber writer([&] {
    EXPECT_EQ(WaitFd(sockets[0], POLLOUT, Soon()).events, POLLOUT);
    writable = true;
  });
  Fiber for_the_end([&] {
    EXPECT_EQ(WaitFd(sockets[0], POLLRDHUP, Soon()).events & POLLRDHUP, POLLRDHUP);
    ended = true;
  });
  EXPECT_EQ(::write(sockets[1], "x", 1), 1);
  reader.Join();
  EXPECT_FALSE(writable);
  EXPECT_FALSE(ended);
  while (::read(sockets[1], much, sizeof(much)) > 0) {
  }
  writer.Join();
  EXPECT_FALSE(ended);
  EXPECT_EQ(::shutdown(sockets[1], SHUT_WR), 0);
  for_the_end.Join();
  for (const int fd : sockets) EXPECT_FALSE(CloseFd(fd));
}

TEST_P(WaitFdTest, CloseFdEndsAllWaits) {
  Pipe pipe;
  const int closed = std::exchange(pipe.read, -1);
  constexpr int kWaiters = 10;
  std::atomic<int> begun{0};
  std::vector<Fiber> waiters;
  for (int i = 0; i < kWaiters; ++i) {
    waiters.emplace_back([&] {
      ++begun;
      const WaitFdResult ready = WaitFd(closed, POLLIN, Soon());
      // Canceled, or it came after the close.
      EXPECT_TRUE(ready.error == std::errc::operation_canceled || ready.error == std::errc::bad_file_descriptor)
          << ready.error.message();
    });
  }
  ASSERT_TRUE(Reaches([&] { return begun == kWaiters; }));
  ASSERT_TRUE(AwaitRegistered(1));
  EXPECT_FALSE(CloseFd(closed));
  for (Fiber& waiter : waiters) waiter.Join();
  EXPECT_EQ(CloseFd(closed), std::errc::bad_file_descriptor);
}

TEST_P(WaitFdTest, AFiberThatWaitsIsCanceledByCloseFd) {
  for (int i = 0; i < 50; ++i) {
    Pipe pipe;
    Fiber waiter([fd = pipe.read] { EXPECT_EQ(WaitFd(fd, POLLIN, Soon()).error, std::errc::operation_canceled); });
    ASSERT_TRUE(AwaitRegistered(1));
    InFiber([&pipe] { pipe.CloseRead(); });
    waiter.Join();
  }
}

// close(2) behind our back, and the number is another descriptor's: the new one is waited for, not the old.
TEST_P(WaitFdTest, ANumberThatWasClosedBehindOurBackIsAnotherDescriptor) {
  InFiber([] {
    for (int i = 0; i < 20; ++i) {
      const int first = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      EXPECT_EQ(WaitFd(first, POLLIN, 100us).error, std::errc::timed_out);
      ::close(first);
      const int second = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
      EXPECT_EQ(second, first);
      Fiber setter([second] {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(second, &one, sizeof(one)), 8);
      });
      EXPECT_EQ(WaitFd(second, POLLIN, Soon()).events, POLLIN);
      setter.Join();
      EXPECT_FALSE(CloseFd(second));
    }
  });
}

// The same where the first was ready, so that its registration stays (RG2). The second is waited for in each group.
TEST_P(WaitFdTest, ANumberThatWasReadyAndClosedBehindOurBackIsAnotherDescriptor) {
  for (std::size_t group = 0; group < GetSchedulingGroupCount(); ++group) {
    const int first = ::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    InFiber([first] { EXPECT_EQ(WaitFd(first, POLLIN, Soon()).events, POLLIN); });
    ::close(first);
    const int second = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ASSERT_EQ(second, first);
    Fiber waiter({.scheduling_group = group, .scheduling_group_local = true},
                 [second] { EXPECT_EQ(WaitFd(second, POLLIN, Soon()).events, POLLIN); });
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(second, &one, sizeof(one)), 8);
    waiter.Join();
    EXPECT_FALSE(CloseFd(second));
  }
}

// Each group has its own reactor, timers and workers: one that computes keeps no other waiting.
TEST(WaitFdInNamedGroups, AGroupThatComputesDelaysNoOther) {
  const IoRuntime runtime(fiber::NamedGroupsOf("latency:1,batch:1"));
  for (const char* busy_name : {"latency", "batch"}) {
    const char* const other_name = busy_name == std::string_view("batch") ? "latency" : "batch";
    std::atomic<bool> done{false};
    Fiber busy({.scheduling_group = SchedulingGroupNamed(busy_name)}, [&] {
      while (!done.load(std::memory_order_relaxed)) continue;
    });
    Fiber({.scheduling_group = SchedulingGroupNamed(other_name)}, [&] {
      int ends[2] = {-1, -1};
      ASSERT_EQ(::pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
      for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(WaitFd(ends[0], POLLIN, 1ms).error, std::errc::timed_out);
        Fiber writer([&] { EXPECT_EQ(::write(ends[1], "x", 1), 1); });
        EXPECT_EQ(WaitFd(ends[0], POLLIN, Soon()).events, POLLIN);
        char byte = 0;
        EXPECT_EQ(::read(ends[0], &byte, 1), 1);
        writer.Join();
        EXPECT_EQ(GetSchedulingGroupName(GetCurrentSchedulingGroupIndex()), other_name);
      }
      EXPECT_FALSE(CloseFd(ends[0]));
      EXPECT_FALSE(CloseFd(ends[1]));
    }).Join();
    done = true;
    busy.Join();
  }
}

// A duplicate keeps the old one's registration alive in the kernel: its events are about nobody, or a hint to the new.
TEST_P(WaitFdTest, ADuplicateOfWhatWasClosedDoesNoHarm) {
  InFiber([] {
    const int first = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    EXPECT_EQ(WaitFd(first, POLLIN, 100us).error, std::errc::timed_out);
    const int duplicate = ::fcntl(first, F_DUPFD_CLOEXEC, first + 10);
    ::close(first);
    const int second = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ASSERT_EQ(second, first);
    Fiber setter([duplicate, second] {
      const std::uint64_t one = 1;
      EXPECT_EQ(::write(duplicate, &one, sizeof(one)), 8);
      FiberSleepFor(2ms);
      EXPECT_EQ(::write(second, &one, sizeof(one)), 8);
    });
    EXPECT_EQ(WaitFd(second, POLLIN, Soon()).events, POLLIN);
    setter.Join();
    ::close(duplicate);
    EXPECT_FALSE(CloseFd(second));
  });
}

// Woken for what another wanted, and the descriptor is closed before it runs: it waited for the one that had the number
// next.
TEST_P(WaitFdTest, WhoIsAwakeWhenItIsClosedDoesNotWaitForTheNextOfThatNumber) {
  const auto fill = [](int fd) {
    char much[4096] = {};
    while (::write(fd, much, sizeof(much)) > 0) {
    }
  };
  for (int round = 0; round < 10; ++round) {
    int sockets[2];
    int next[2] = {-1, -1};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    fill(sockets[0]);
    std::atomic<scheduling_group::FiberEntity*> entity{nullptr};
    const auto waits = [&entity] { return entity != nullptr && entity.load()->current_wait.load() != nullptr; };
    Fiber reader([&] {
      entity = scheduling_group::CurrentFiber();
      EXPECT_EQ(WaitFd(sockets[0], POLLIN, Soon()).events, POLLIN);
      EXPECT_FALSE(CloseFd(sockets[0]));
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, next), 0);
      EXPECT_EQ(next[0], sockets[0]);
      fill(next[0]);
    });
    ASSERT_TRUE(Reaches(waits));
    entity = nullptr;
    Fiber writer([&] {
      entity = scheduling_group::CurrentFiber();
      EXPECT_EQ(WaitFd(sockets[0], POLLOUT, 2s).error, std::errc::operation_canceled);
    });
    ASSERT_TRUE(Reaches(waits));
    EXPECT_EQ(::write(sockets[1], "x", 1), 1);
    reader.Join();
    writer.Join();
    for (const int fd : {sockets[1], next[0], next[1]}) EXPECT_FALSE(CloseFd(fd));
  }
}

// The same if a cancellation has ended the wait before: it looked at the next one, and told of that.
TEST_P(WaitFdTest, WhoIsCancelledBeforeItIsClosedDoesNotLookAtTheNextOfThatNumber) {
  const int fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  Fiber waiter([fd] { EXPECT_EQ(WaitFd(fd, POLLIN, Soon()).error, std::errc::operation_canceled); });
  ASSERT_TRUE(AwaitRegistered(1));
  InFiber([&] {  // With one worker the waiter runs after all this.
    EXPECT_TRUE(waiter.Cancel());
    EXPECT_FALSE(CloseFd(fd));
    EXPECT_EQ(::eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC), fd);
  });
  waiter.Join();
  EXPECT_FALSE(CloseFd(fd));
}

// It said timed_out, though it was ready long before: no worker had looked.
TEST_P(WaitFdTest, WhatWasReadyBeforeTheDeadlineIsTold) {
  Pipe pipe;
  std::atomic<int> begun{0};
  const int workers = GetParam().workers * GetParam().groups;
  std::atomic<Steady::rep> ready_at{Steady::time_point::max().time_since_epoch().count()};
  Fiber waiter([&] {
    ++begun;
    const Deadline deadline = 20ms;
    const WaitFdResult ready = WaitFd(pipe.read, POLLIN, deadline);
    if (ready_at > deadline.time_point().time_since_epoch().count()) return;  // The workers were not busy in time.
    EXPECT_FALSE(ready.error) << ready.error.message();
    EXPECT_EQ(ready.events, POLLIN);
  });
  ASSERT_TRUE(AwaitRegistered(1));
  std::vector<Fiber> busy;
  for (int i = 0; i < workers; ++i) {
    busy.emplace_back([&] {
      // The last of them is there when all workers are busy, and keeps them so.
      if (++begun == workers + 1) {
        pipe.WriteByte();
        ready_at = Steady::now().time_since_epoch().count();
      }
      const auto until = Steady::now() + 60ms;
      while (Steady::now() < until) {
      }
    });
  }
  for (Fiber& fiber : busy) fiber.Join();
  waiter.Join();
}

// What was waited for in vain is closed by close(2), as it may be when nobody waits: the peer is told.
TEST_P(WaitFdTest, WhatNobodyWaitsForAnyMoreIsNotKeptOpen) {
  InFiber([] {
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    EXPECT_EQ(WaitFd(sockets[0], POLLIN, 100us).error, std::errc::timed_out);
    ::close(sockets[0]);
    EXPECT_EQ(WaitFd(sockets[1], POLLIN, Soon()).events & POLLIN, POLLIN);
    char byte;
    EXPECT_EQ(::read(sockets[1], &byte, 1), 0);
    EXPECT_FALSE(CloseFd(sockets[1]));
  });
}

// E.g. by a library that connects, and hands the socket over: its first read failed, "file exists".
TEST_P(WaitFdTest, WhatWasWaitedForCanBecomeAStream) {
  for (const bool in_vain : {true, false}) {
    InFiber([in_vain] {
      int sockets[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
      if (in_vain) {
        EXPECT_EQ(WaitFd(sockets[0], POLLIN, 100us).error, std::errc::timed_out);
      } else {
        EXPECT_EQ(WaitFd(sockets[0], POLLOUT, Soon()).events, POLLOUT);
      }
      TcpStream stream{Descriptor(sockets[0])};
      Fiber peer([fd = sockets[1]] {
        FiberSleepFor(1ms);
        EXPECT_EQ(::write(fd, "x", 1), 1);
      });
      char byte;
      const IoResult read = stream.ReadSome(&byte, 1, Soon());
      EXPECT_TRUE(read.ok()) << read.error.message();
      peer.Join();
      ::close(sockets[1]);
    });
  }
}

// It stayed registered when the stream never had to wait itself.
TEST_P(WaitFdTest, WhatWasWaitedForCanBecomeAStreamThatDoesNotWait) {
  InFiber([] {
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
    EXPECT_EQ(WaitFd(sockets[0], POLLOUT, Soon()).events, POLLOUT);
    ASSERT_EQ(::write(sockets[1], "x", 1), 1);
    TcpStream stream{Descriptor(sockets[0])};
    char byte;
    EXPECT_TRUE(stream.ReadSome(&byte, 1, Soon()).ok());
    ::close(sockets[1]);
  });
}

// It took the stream's registration away, and who read waited for ever.
TEST_P(WaitFdTest, AStreamIsNotRobbedByAWaitForItsNumber) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
  TcpStream stream{Descriptor(sockets[0])};
  std::atomic<bool> has_read{false};
  const FiberAttributes first_group{.scheduling_group = 0, .scheduling_group_local = true};
  Fiber reader(first_group, [&] {
    char byte;
    const auto begin = Steady::now();
    EXPECT_TRUE(stream.ReadSome(&byte, 1, Soon()).ok());
    EXPECT_LT(Steady::now() - begin, kBeforeSoon);  // Not by the look at its deadline.
    has_read = true;
  });
  ASSERT_TRUE(AwaitRegistered(1));
  Fiber(first_group, [&] {
    EXPECT_EQ(WaitFd(stream.fd(), POLLOUT, Soon()).error, std::errc::device_or_resource_busy);
  }).Join();
  EXPECT_FALSE(has_read);
  EXPECT_EQ(::write(sockets[1], "x", 1), 1);
  reader.Join();
  ::close(sockets[1]);
}

TEST_P(WaitFdTest, AFileIsAlwaysReady) {
  const int file = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  const int directory = ::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  InFiberAndInThread([=] {
    for (const int fd : {file, directory}) {
      const WaitFdResult ready = WaitFd(fd, POLLIN, Soon());
      EXPECT_FALSE(ready.error) << ready.error.message();
      EXPECT_EQ(ready.events, POLLIN);
    }
  });
  for (const int fd : {file, directory}) EXPECT_FALSE(CloseFd(fd));
}

TEST_P(WaitFdTest, WhatIsNoDescriptorIsRefused) {
  const int closed = ::eventfd(0, EFD_CLOEXEC);
  ::close(closed);
  InFiberAndInThread([closed] {
    for (const int fd : {closed, std::numeric_limits<int>::max()}) {
      EXPECT_EQ(WaitFd(fd, POLLIN, Soon()).error, std::errc::bad_file_descriptor) << fd;
      EXPECT_EQ(CloseFd(fd), std::errc::bad_file_descriptor) << fd;
    }
  });
  InFiber([] {
    EXPECT_EQ(WaitFd(-1, POLLIN, Soon()).error, std::errc::bad_file_descriptor);
    EXPECT_EQ(CloseFd(-1), std::errc::bad_file_descriptor);
  });
}

TEST_P(WaitFdTest, ManyFibersAndManyDescriptors) {
  constexpr int kPipes = 40;
  const int rounds = Scaled(200);
  std::vector<Pipe> pipes(kPipes);
  std::vector<Fiber> fibers;
  for (Pipe& pipe : pipes) {
    std::atomic<int>* const left = new std::atomic<int>(2);
    // Two that read the same pipe: one of them finds nothing now and then.
    for (int reader = 0; reader < 2; ++reader) {
      fibers.emplace_back([&pipe, rounds, left, reader] {
        std::mt19937 random(static_cast<unsigned>(pipe.read * 2 + reader));
        int bytes = 0;
        while (bytes < rounds / 2) {
          const bool short_wait = random() % 4 == 0;
          const WaitFdResult ready = WaitFd(pipe.read, POLLIN, short_wait ? Deadline(50us) : Soon());
          if (short_wait && ready.error == std::errc::timed_out) continue;
          if (ready.error || (ready.events & POLLIN) == 0) {
            ADD_FAILURE() << "wait: " << ready.error.message() << ", events " << ready.events;
            break;
          }
          char byte;
          if (::read(pipe.read, &byte, 1) == 1) ++bytes;
        }
        if (left->fetch_sub(1) == 1) delete left;
      });
    }
    fibers.emplace_back([&pipe, rounds] {
      std::mt19937 random(static_cast<unsigned>(pipe.write));
      for (int i = 0; i < rounds / 2 * 2; ++i) {
        pipe.WriteByte();
        if (random() % 8 == 0) FiberSleepFor(std::chrono::microseconds(random() % 100));
        if (random() % 2 == 0) FiberYield();
      }
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

// Numbers are closed and opened again all the time while others wait for them: no wait may stay behind.
TEST_P(WaitFdTest, ClosedAndOpenedAgainWhileOthersWait) {
  const int rounds = Scaled(400);
  std::atomic<int> number{-1};
  std::atomic<bool> stop{false};
  std::vector<Fiber> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      while (!stop) {
        const int fd = number;
        if (fd < 0) {
          FiberYield();
          continue;
        }
        const WaitFdResult ready = WaitFd(fd, POLLIN, Soon());
        EXPECT_NE(ready.error, std::errc::timed_out);
      }
    });
  }
  InFiber([&] {
    std::mt19937 random(7);
    for (int i = 0; i < rounds; ++i) {
      // Not eventfd(): that somebody waits for a number which is just being made is what ThreadSanitizer, which follows
      // descriptors, calls a race, and what this is about.
      const int fd = static_cast<int>(::syscall(SYS_eventfd2, 0, EFD_NONBLOCK | EFD_CLOEXEC));
      number = fd;
      if (random() % 2 == 0) FiberSleepFor(std::chrono::microseconds(random() % 200));
      if (random() % 4 == 0) {
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(fd, &one, sizeof(one)), 8);
        FiberYield();
      }
      if (i + 1 == rounds) {
        stop = true;
        number = -1;
      }
      EXPECT_FALSE(CloseFd(fd));
    }
  });
  for (Fiber& waiter : waiters) waiter.Join();
}

}  // namespace
}  // namespace weft::io
