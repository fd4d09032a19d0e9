// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/throttled_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "weft/fiber/background_tasks.h"
#include "weft/fiber/testing.h"
#include "weft/sync/cancel_scope.h"

#include "fiber/helper_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class ThrottledLoopTest : public InFiberAndThread {};

TEST_P(ThrottledLoopTest, NoTurnIsEarly) {
  InBoth([] {
    const auto begin = steady_clock::now();
    Throttler throttler(500);
    EXPECT_EQ(throttler.interval(), 2ms);
    for (int turn = 0; turn < 10; ++turn) {
      EXPECT_TRUE(throttler.Wait());
      EXPECT_GE(steady_clock::now() - begin, turn * 2ms);
    }
  });
}

// The loop's own time and late wake-ups do not add up. A busy machine may spoil an attempt; a pace that drifts, all.
TEST_P(ThrottledLoopTest, ThePaceDoesNotDrift) {
  const auto five_turns_take = [] {
    Throttler throttler(2ms);
    const auto begin = steady_clock::now();
    for (int turn = 0; turn <= 5; ++turn) {
      throttler.Wait();
      FiberSleepFor(1500us);
    }
    return steady_clock::now() - begin;
  };
  InFiber([&] {
    for (int attempt = 0; attempt < 500; ++attempt) {
      if (five_turns_take() < 15ms) return;
    }
    ADD_FAILURE() << "5 turns of 2 ms, each with a pause of 1.5 ms, always took 15 ms";
  });
}

TEST_P(ThrottledLoopTest, WhatWasMissedIsNotCaughtUp) {
  InBoth([] {
    Throttler throttler(4ms);
    throttler.Wait();
    FiberSleepFor(12ms);
    const auto begin = steady_clock::now();
    ASSERT_TRUE(throttler.Wait(0ms)) << "the one that is due";
    for (int turn = 1; turn <= 3; ++turn) {
      throttler.Wait();
      EXPECT_GE(steady_clock::now() - begin, turn * 4ms);
    }
  });
}

TEST_P(ThrottledLoopTest, AsManyTurnsAreCaughtUpAsItSays) {
  InBoth([] {
    constexpr auto kInterval = 5ms;
    constexpr int kCatchUp = 2;
    Throttler throttler(kInterval, kCatchUp);
    FiberSleepFor(kInterval * 6);
    const auto begin = steady_clock::now();
    int turns = 0;
    while (throttler.Wait(0ms)) ++turns;
    const auto passed = steady_clock::now() - begin;
    EXPECT_GE(turns, 1 + kCatchUp);
    EXPECT_LE(turns, 2 + kCatchUp + passed / kInterval);
  });
}

TEST_P(ThrottledLoopTest, ATurnAfterTheDeadlineIsLeftToOthers) {
  InBoth([] {
    constexpr auto kInterval = 20ms;
    Throttler throttler(kInterval);
    const auto begin = steady_clock::now();
    ASSERT_TRUE(throttler.Wait(0ms)) << "the first is at once";
    int refused = 0;
    for (int i = 0; i < 1000; ++i) refused += !throttler.Wait(0ms);
    if (steady_clock::now() - begin < kInterval) {
      EXPECT_EQ(refused, 1000);
    }
    EXPECT_TRUE(throttler.Wait(3 * kInterval)) << "a thousand turns are gone";
  });
}

TEST_P(ThrottledLoopTest, SeveralShareTheRateOfOneThrottler) {
  constexpr int kFibers = 4, kTurns = 5;
  const auto begin = steady_clock::now();
  Throttler throttler(1ms);
  std::mutex mutex;
  std::vector<steady_clock::duration> taken;
  {
    BackgroundTasks tasks;
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(tasks.Start([&] {
        for (int turn = 0; turn < kTurns; ++turn) {
          throttler.Wait();
          const std::scoped_lock lock(mutex);
          taken.push_back(steady_clock::now() - begin);
        }
      }));
    }
  }
  std::sort(taken.begin(), taken.end());
  ASSERT_EQ(taken.size(), std::size_t{kFibers * kTurns});
  for (std::size_t turn = 0; turn < taken.size(); ++turn) EXPECT_GE(taken[turn], turn * 1ms);
}

TEST_P(ThrottledLoopTest, ALoopEndsWhenItsFunctionSaysSo) {
  InBoth([] {
    int calls = 0;
    const auto begin = steady_clock::now();
    ThrottledLoop(1000, [&] { return ++calls < 4; });
    EXPECT_EQ(calls, 4);
    EXPECT_GE(steady_clock::now() - begin, 3ms);
    EXPECT_THROW(ThrottledLoop(1000, [] { throw std::runtime_error("enough"); }), std::runtime_error);
  });
}

TEST_P(ThrottledLoopTest, ALoopThatIsAlwaysBehindIsCancelled) {
  InFiber([] {
    CancelScope scope;
    int turns = 0;
    EXPECT_FALSE(scope.Run([&] {
      Throttler throttler(std::chrono::nanoseconds(1));
      for (;;) {
        static_cast<void>(throttler.Wait());
        if (++turns == 3) scope.Cancel();
        ASSERT_LT(turns, 1000);
      }
    }));
  });
}

TEST_P(ThrottledLoopTest, ALoopEndsAtItsDeadline) {
  InBoth([] {
    int calls = 0;
    const Deadline deadline = 10ms;
    ThrottledLoop(
        500, [&] { ++calls; }, deadline);
    EXPECT_GE(calls, 1);
    EXPECT_LE(calls, 7);  // At 0, 2, .. 10 ms; and one that was begun at the deadline and had its CPU late.
    EXPECT_LE(deadline.remaining(), 2ms) << "the next turn would have come in time";
  });
}

TEST_P(ThrottledLoopTest, ALoopThatIsAlwaysBehindEndsAtItsDeadline) {
  InBoth([] {
    int calls = 0;
    const auto call = [&] {
      FiberSleepFor(1ms);  // A thousand intervals.
      return ++calls < 1000;
    };
    ThrottledLoop(1e6, call, 5ms);
    EXPECT_GE(calls, 1);
    EXPECT_LE(calls, 5);
    calls = 0;
    ThrottledLoop(1e6, call, 0ms);
    EXPECT_EQ(calls, 1) << "the first call is made in any case";
  });
}

WEFT_INSTANTIATE_FEW_SHAPES(ThrottledLoopTest);

TEST(Throttler, TakesAnyRateAboveZero) {
  EXPECT_EQ(Throttler(3).interval(), 333333333ns);
  EXPECT_EQ(Throttler(1e12).interval(), 1ns);
  EXPECT_GE(Throttler(1e-300).interval(), 24h * 365 * 200);
  Throttler once(1e-300);
  EXPECT_TRUE(once.Wait());
  EXPECT_FALSE(once.Wait(1ms));
  Throttler seldom(std::chrono::nanoseconds::max(), 1000);
  EXPECT_TRUE(seldom.Wait(0ms));
}

TEST(ThrottlerDeathTest, RatesThatCannotBeEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(Throttler(0.0), "0 turns a second cannot be");
  EXPECT_DEATH(Throttler(-1.0), "-1 turns a second cannot be");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_DEATH(Throttler{nan}, "nan turns a second cannot be");
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_DEATH(Throttler{infinity}, "inf turns a second cannot be");
  EXPECT_DEATH(Throttler(0ms), "an interval of 0 ns cannot be");
}

}  // namespace
}  // namespace weft::fiber
