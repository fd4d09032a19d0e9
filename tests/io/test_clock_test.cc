// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/test_clock.h beside what fibers wait for outside of them: blocking calls and descriptors.
#include "weft/fiber/test_clock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <latch>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;
using fiber::Shape;

class TestClockIoTest : public ::testing::TestWithParam<Shape> {
 protected:
  template <class F>
  static void InFiber(F&& f) {
    Fiber(std::forward<F>(f)).Join();
  }
  template <class F>
  std::chrono::nanoseconds Took(F&& f) {
    const auto begin = clock_.Now();
    f();
    return clock_.Now() - begin;
  }

  TestClock clock_;
  fiber::RuntimeOf runtime_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, TestClockIoTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}),
                         &fiber::NameOf);

TEST_P(TestClockIoTest, TimeStandsStillWhileABlockingCallRuns) {
  InFiber([&] {
    Fiber sleeper([] { FiberSleepFor(1h); });
    FiberSleepFor(1s);
    // The call goes on when a thread, which looks at the clock, says so: all workers sleep until then.
    std::latch runs(1);
    std::latch go_on(1);
    const auto begin = clock_.Now();
    std::thread outside([&] {
      runs.wait();
      EXPECT_EQ(clock_.Now(), begin);
      go_on.count_down();
    });
    EXPECT_EQ(Took([&] {
                FiberBlocking([&] {
                  runs.count_down();
                  go_on.wait();
                });
              }),
              0s);
    outside.join();
    sleeper.Join();
    EXPECT_EQ(clock_.Now() - begin, 1h - 1s);
  });
}

TEST_P(TestClockIoTest, TheLastOfManyBlockingCallsLetsTimeGoOn) {
  InFiber([&] {
    const auto begin = clock_.Now();
    std::vector<Fiber> fibers;
    for (int i = 0; i < 10; ++i) {
      fibers.emplace_back([&] {
        for (int k = 1; k <= 20; ++k) {
          FiberBlocking([] {});
          EXPECT_EQ(clock_.Now() - begin, (k - 1) * 1s);
          FiberSleepFor(1s);
        }
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    EXPECT_EQ(clock_.Now() - begin, 20s);
  });
}

TEST_P(TestClockIoTest, AdvanceLetsABlockingCallRunOutOfTime) {
  std::latch go_on(1);
  std::latch ended(1);
  Fiber caller([&] {
    EXPECT_EQ(FiberBlocking(
                  [&] {
                    go_on.wait();
                    ended.count_down();
                    return 1;
                  },
                  1min),
              std::nullopt);
  });
  clock_.SetAutoAdvance(false);
  while (GetFiberBlockingCounts().running == 0) std::this_thread::yield();
  clock_.Advance(59s);
  EXPECT_FALSE(caller.Join(Deadline(0s)));
  clock_.Advance(1s);
  EXPECT_TRUE(caller.Join(Deadline(0s)));
  go_on.count_down();
  ended.wait();
  // It was given up: its end is not waited for, and time goes on by itself.
  clock_.SetAutoAdvance(true);
  FiberSleepFor(1h);
}

struct SocketPair {
  SocketPair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds.data()), 0); }
  ~SocketPair() {
    for (const int fd : fds) CloseFd(fd);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  std::array<int, 2> fds{};
};

// A worker that is told of an event and has not yet woken the fiber must count as running: else time would jump to the
// reader's deadline.
TEST_P(TestClockIoTest, WhatIsReadyComesBeforeAnyTimeOut) {
  InFiber([&] {
    const SocketPair pair;
    const auto play = [&](int side, bool serves) {
      char ball = 'b';
      for (int i = 0; i < 500; ++i) {
        if (serves || i > 0) {
          if (::write(pair.fds[side], &ball, 1) != 1) return ADD_FAILURE() << "write";
        }
        const WaitFdResult ready = WaitFd(pair.fds[side], POLLIN, 1ms);
        if (ready.error) return ADD_FAILURE() << ready.error.message() << " in round " << i;
        if (::read(pair.fds[side], &ball, 1) != 1) return ADD_FAILURE() << "read";
      }
      if (!serves && ::write(pair.fds[side], &ball, 1) != 1) ADD_FAILURE() << "write";
    };
    EXPECT_EQ(Took([&] {
                Fiber other([&] { play(1, false); });
                play(0, true);
                other.Join();
              }),
              0s);
  });
}

TEST_P(TestClockIoTest, AWaitForADescriptorEndsAtItsDeadline) {
  InFiber([&] {
    const SocketPair pair;
    EXPECT_EQ(Took([&] { EXPECT_EQ(WaitFd(pair.fds[0], POLLIN, 1h).error, std::errc::timed_out); }), 1h);
    Fiber writer([&] {
      FiberSleepFor(10min);
      EXPECT_EQ(::write(pair.fds[1], "x", 1), 1);
    });
    EXPECT_EQ(Took([&] { EXPECT_EQ(WaitFd(pair.fds[0], POLLIN, 1h).events, POLLIN); }), 10min);
    writer.Join();
  });
}

// The kernel waits by the machine's time.
TEST_P(TestClockIoTest, APlainThreadsWaitForADescriptorEnds) {
  const SocketPair pair;
  const auto really = std::chrono::steady_clock::now();
  EXPECT_EQ(WaitFd(pair.fds[0], POLLIN, 20ms).error, std::errc::timed_out);
  EXPECT_GE(std::chrono::steady_clock::now() - really, 20ms);
}

TEST_P(TestClockIoTest, AThreadThatWritesIsWaitedForWithoutAutoAdvance) {
  clock_.SetAutoAdvance(false);
  const SocketPair pair;
  Fiber reader([&] { EXPECT_EQ(Took([&] { EXPECT_EQ(WaitFd(pair.fds[0], POLLIN, 1ms).events, POLLIN); }), 0s); });
  EXPECT_EQ(::write(pair.fds[1], "x", 1), 1);
  reader.Join();
  clock_.SetAutoAdvance(true);
}

// --- In a FiberLoop, which waits for its descriptor ---

class TestClockLoopIoTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::pipe2(ends_.data(), O_CLOEXEC | O_NONBLOCK), 0); }
  void TearDown() override {
    for (const int end : ends_) ::close(end);
  }
  std::chrono::nanoseconds Passed() const { return clock_.Now() - begin_; }
  void Write() { EXPECT_EQ(::write(ends_[1], "x", 1), 1); }

  TestClock clock_;
  const TestClock::TimePoint begin_ = clock_.Now();
  FiberLoop loop_;
  std::array<int, 2> ends_{-1, -1};
};

TEST_F(TestClockLoopIoTest, AWaitForADescriptorEndsAtItsDeadline) {
  loop_.AddTask([&] {
    EXPECT_EQ(WaitFd(ends_[0], POLLIN, 1h).error, std::errc::timed_out);
    EXPECT_EQ(Passed(), 1h);
    FiberSleepFor(1h);
  });
  loop_.Run();
  EXPECT_EQ(Passed(), 2h);
}

TEST_F(TestClockLoopIoTest, WhatIsReadyComesBeforeAnyTimeOut) {
  loop_.AddTask([&] {
    for (int i = 0; i < 100; ++i) {
      char byte;
      EXPECT_FALSE(WaitFd(ends_[0], POLLIN, 1h).error);
      EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
    }
    EXPECT_EQ(Passed(), 0ns);
  });
  loop_.AddTask([&] {
    for (int i = 0; i < 100; ++i) {
      Write();
      FiberYield();
    }
  });
  loop_.Run();
}

TEST_F(TestClockLoopIoTest, AThreadThatWritesIsWaitedForWithoutAutoAdvance) {
  clock_.SetAutoAdvance(false);
  loop_.AddTask([&] {
    EXPECT_FALSE(WaitFd(ends_[0], POLLIN, 1h).error);
    EXPECT_EQ(Passed(), 0ns);
  });
  std::thread writer([&] { Write(); });
  loop_.Run();
  writer.join();
}

// A foreign loop: the descriptor is readable for a time that has come, and for an event.
// The next hour does not come before the loop has taken the byte.
TEST_F(TestClockLoopIoTest, TimeWaitsForAForeignLoopThatHasAnEvent) {
  constexpr int kRounds = 100;
  const int fd = loop_.NotifyFd();
  ASSERT_GE(fd, 0);
  loop_.AddTask([&] {
    for (int i = 1; i <= kRounds; ++i) {
      char byte;
      EXPECT_FALSE(WaitFd(ends_[0], POLLIN).error);
      EXPECT_EQ(Passed(), i * 1h);
      EXPECT_EQ(::read(ends_[0], &byte, 1), 1);
    }
  });
  ASSERT_TRUE(loop_.RunReady());
  std::thread writer([&] {
    FiberEvent never;
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_FALSE(never.Wait(1h));
      Write();
    }
  });
  do {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, 60'000), 1);
  } while (loop_.RunReady());
  writer.join();
}

TEST_F(TestClockLoopIoTest, AForeignLoopIsToldOfBoth) {
  const int fd = loop_.NotifyFd();
  ASSERT_GE(fd, 0);
  bool late = false;
  bool ready = false;
  loop_.AddTask([&] {
    late = WaitFd(ends_[0], POLLIN, 1h).error == std::errc::timed_out;
    clock_.SetAutoAdvance(false);
    Write();
    ready = WaitFd(ends_[0], POLLIN, 1h).events == POLLIN;
  });
  while (loop_.RunReady()) {
    pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&entry, 1, 60'000), 1);
  }
  EXPECT_TRUE(late);
  EXPECT_TRUE(ready);
  EXPECT_EQ(Passed(), 1h);
}

TEST_F(TestClockLoopIoTest, TimeStandsStillWhileABlockingCallRuns) {
  loop_.AddTask([&] {
    const auto begin = clock_.Now();
    FiberBlocking([&] { EXPECT_EQ(clock_.Now(), begin); });
    EXPECT_EQ(clock_.Now(), begin);
  });
  loop_.AddTask([] { FiberSleepFor(1h); });
  loop_.Run();
  EXPECT_EQ(Passed(), 1h);
}

}  // namespace
}  // namespace weft::io
