// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/rate_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "testing/patience.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// A test clock, and a runtime in it.
class RateLimiterTest : public ::testing::TestWithParam<fiber::Shape>, protected fiber::CallsInFibers {
 protected:
  std::chrono::nanoseconds Since() const { return clock_.Now() - begin_; }

  TestClock clock_;
  const FiberClock::time_point begin_ = clock_.Now();
  fiber::RuntimeOf runtime_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, RateLimiterTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}),
                         &fiber::NameOf);

TEST_P(RateLimiterTest, LetsTheBurstPassAndThenTheRate) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 10, .burst = 3});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(limiter.TryAcquire());
    EXPECT_FALSE(limiter.TryAcquire());
    for (int i = 1; i <= 5; ++i) {
      limiter.Acquire();
      EXPECT_EQ(Since(), i * 100ms);
      EXPECT_FALSE(limiter.TryAcquire());
    }
    FiberSleepFor(1h);
    EXPECT_FALSE(limiter.TryAcquire(4)) << "more than the burst is never saved up";
    EXPECT_TRUE(limiter.TryAcquire(3));
    EXPECT_FALSE(limiter.TryAcquire());
  });
}

TEST_P(RateLimiterTest, ManyUnitsTakeTheirTime) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1000, .burst = 10});
    limiter.Acquire(1010);
    EXPECT_EQ(Since(), 1s) << "the burst, and a thousand more";
    limiter.Acquire(0);
    EXPECT_EQ(Since(), 1s);
    EXPECT_FALSE(limiter.TryAcquire());
    EXPECT_TRUE(limiter.TryAcquire(0));
  });
}

TEST_P(RateLimiterTest, TurnsComeInTheOrderOfTheCalls) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1});
    std::vector<int> order;
    FiberScope scope;
    for (int i = 0; i < 8; ++i) {
      EXPECT_TRUE(scope.Spawn([&, i] {
        limiter.Acquire();
        EXPECT_EQ(Since(), i * 1s);
        order.push_back(i);  // One at a time: each has its own second.
      }));
      FiberSleepFor(1ns);  // Until it sleeps in Acquire().
    }
    scope.Wait();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  });
}

TEST_P(RateLimiterTest, ATurnAfterTheDeadlineIsRefusedAtOnceAndReservesNothing) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1});
    EXPECT_TRUE(limiter.Acquire(1, 0s)) << "it need not wait";
    EXPECT_FALSE(limiter.Acquire(1, 0s));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(limiter.Acquire(1, 999ms));
    EXPECT_EQ(Since(), 0s);
    EXPECT_TRUE(limiter.Acquire(1, 1s));
    EXPECT_EQ(Since(), 1s);
    EXPECT_TRUE(limiter.Acquire(1, Deadline::None()));
    EXPECT_EQ(Since(), 2s);
  });
}

TEST_P(RateLimiterTest, WhatACancelledCallerHadReservedComesBack) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1});
    limiter.Acquire();
    EXPECT_FALSE(MoveOnAfter(500ms, [&] { limiter.Acquire(100); }));
    EXPECT_FALSE(MoveOnAfter(100ms, [&] { static_cast<void>(limiter.Acquire(100, 1h)); }));
    EXPECT_EQ(Since(), 600ms);
    limiter.Acquire();
    EXPECT_EQ(Since(), 1s);
  });
}

TEST_P(RateLimiterTest, OthersKeepTheirTurnsWhenOneGivesUp) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1});
    limiter.Acquire();
    CancelScope gives_up;
    std::chrono::nanoseconds turns[3] = {};
    FiberScope line;
    EXPECT_TRUE(line.Spawn([&] { EXPECT_FALSE(gives_up.Run([&] { limiter.Acquire(); })); }));
    FiberSleepFor(1ns);
    for (auto& turn : turns) {
      EXPECT_TRUE(line.Spawn([&] {
        limiter.Acquire();
        turn = Since();
      }));
      FiberSleepFor(1ns);
      if (&turn == &turns[1]) {
        gives_up.Cancel();
        FiberSleepFor(1ns);
      }
    }
    line.Wait();
    EXPECT_EQ(turns[0], 2s);
    EXPECT_EQ(turns[1], 3s);
    EXPECT_EQ(turns[2], 3s) << "it came after the return, and has what was returned";
  });
}

// Many in line that all give up, in any order, leave nothing behind; those that stay keep their turns.
TEST_P(RateLimiterTest, ALineThatGivesUpLeavesNothingBehind) {
  InFiber([&] {
    RateLimiter limiter({.per_second = 1});
    limiter.Acquire();
    {
      FiberScope line({.policy = ScopePolicy::kCollect, .deadline = 500ms});
      for (int i = 0; i < 100; ++i) EXPECT_TRUE(line.Spawn([&] { limiter.Acquire(); }));
      FiberSleepFor(1ms);
      EXPECT_FALSE(limiter.Acquire(1, 100s)) << "a hundred are before it";
      line.Wait();
    }
    EXPECT_EQ(Since(), 500ms);
    limiter.Acquire();
    EXPECT_EQ(Since(), 1s);
  });
}

TEST_P(RateLimiterTest, APlainThreadWaitsToo) {
  RateLimiter limiter({.per_second = 100});
  for (int i = 0; i < 5; ++i) limiter.Acquire();
  EXPECT_EQ(Since(), 40ms);
}

TEST_P(RateLimiterTest, ATurnBeyondTheClocksEndNeverComes) {
  InFiber([&] {
    constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
    RateLimiter limiter({.per_second = 1, .burst = 2});
    EXPECT_FALSE(limiter.TryAcquire(kMost));
    EXPECT_FALSE(limiter.Acquire(kMost, Deadline::None()));
    EXPECT_FALSE(limiter.Acquire(kMost / 1'000'000'000, Deadline::None())) << "the clock does not begin at its least";
    EXPECT_FALSE(MoveOnAfter(1h, [&] { limiter.Acquire(kMost); })) << "it waits";
    EXPECT_TRUE(limiter.TryAcquire(2)) << "nothing was reserved";
    EXPECT_FALSE(limiter.TryAcquire());
  });
}

// A turn that has come before the cancelled caller runs is lost: given back, its units could be had twice.
TEST(RateLimiter, ATurnThatHasPassedDoesNotComeBack) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  const auto was_cancelled_in_time = [](std::chrono::milliseconds time) {
    RateLimiter limiter({.per_second = 1000.0 / static_cast<double>(time.count()), .burst = 1000});
    const Deadline not_yet = time;
    EXPECT_TRUE(limiter.TryAcquire());
    const Deadline passed = time;
    CancelScope scope;
    bool waits = false;
    Fiber waiter([&] {
      static_cast<void>(scope.Run([&] {
        waits = true;
        limiter.Acquire(1000);
      }));
    });
    while (!waits) FiberYield();
    const bool in_time = !not_yet.expired();
    scope.Cancel();
    while (!passed.expired()) continue;  // There is one worker.
    waiter.Join();
    EXPECT_TRUE(!in_time || !limiter.TryAcquire(1000));
    return in_time;
  };
  Fiber([&] { EXPECT_TRUE(testing::InTime(20ms, was_cancelled_in_time)); }).Join();
}

// While time stands still there is the burst for all, and no unit more.
TEST(RateLimiter, ManyThreadsShareTheBurst) {
  TestClock clock;
  const int calls = testing::Scaled(400'000);  // of each thread: they run at the same time for a while
  RateLimiter limiter({.per_second = 1000, .burst = 2 * calls});
  std::atomic<int> taken{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      int mine = 0;
      for (int k = 0; k < calls; ++k) mine += limiter.TryAcquire() ? 1 : 0;
      taken += mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken, 2 * calls);
}

// The steady clock may begin at any time.
TEST(RateLimiter, IsFullWhateverTheClockShows) {
  for (const std::int64_t now :
       {std::int64_t{-1'000'000'000}, std::int64_t{1}, std::int64_t{8'000'000'000'000'000'000}}) {
    base::test_time_ns = now;
    RateLimiter limiter({.per_second = 1e-9, .burst = 1});
    RateLimiter fast({.per_second = 1e9, .burst = 1'000'000'000});
    EXPECT_TRUE(limiter.TryAcquire()) << now;
    EXPECT_FALSE(limiter.TryAcquire()) << now;
    EXPECT_TRUE(fast.TryAcquire(1'000'000'000)) << now;
    EXPECT_FALSE(fast.TryAcquire()) << now;
    base::test_time_ns = now + 2;
    EXPECT_TRUE(fast.TryAcquire(2)) << now;
    EXPECT_FALSE(fast.TryAcquire()) << now;
  }
  base::test_time_ns = 0;
}

TEST(RateLimiter, IsNeverFasterThanItsRate) {
  base::test_time_ns = 1;
  RateLimiter limiter({.per_second = 3e8});
  EXPECT_TRUE(limiter.TryAcquire());
  base::test_time_ns = 4;  // 3.33 ns for one.
  EXPECT_FALSE(limiter.TryAcquire());
  base::test_time_ns = 5;
  EXPECT_TRUE(limiter.TryAcquire());
  base::test_time_ns = 0;
}

TEST(RateLimiterDeathTest, OptionsThatCannotBeEndTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DEATH(RateLimiter({.burst = 5}), "RateLimiter: per_second is 0");
  EXPECT_DEATH(RateLimiter({.per_second = -1}), "RateLimiter: per_second is -1");
  EXPECT_DEATH(RateLimiter({.per_second = kNaN}), "RateLimiter: per_second is nan");
  EXPECT_DEATH(RateLimiter({.per_second = 2e9}), "RateLimiter: per_second is 2");
  EXPECT_DEATH(RateLimiter({.per_second = 1, .burst = 0}), "RateLimiter: burst is 0, at 1000000000 ns for one unit");
  EXPECT_DEATH(RateLimiter({.per_second = 1, .burst = 2'000'000'000}), "RateLimiter: burst is 2000000000");
  RateLimiter limiter({.per_second = 1});
  EXPECT_DEATH(static_cast<void>(limiter.TryAcquire(-1)), "RateLimiter: -1 units");
}

}  // namespace
}  // namespace weft
