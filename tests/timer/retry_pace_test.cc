// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <chrono>

#include "weft/timer/callback/callback_runner.h"

namespace weft::timer {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using TimePoint = RetryPace::TimePoint;

const TimePoint kBegin = TimePoint(seconds(1000));

TEST(RetryPace, TheDelayDoublesWhileNoFiberIsStartedAndNotBeyondTheLongest) {
  RetryPace pace;
  TimePoint now = kBegin;
  for (const int delay : {1, 2, 4, 8, 16, 16, 16}) {
    const TimePoint next = pace.Next(now);
    EXPECT_GE(next - now, milliseconds(delay));
    EXPECT_LT(next - now, milliseconds(delay) + microseconds(100));
    now = next;
  }
}

TEST(RetryPace, ManyThatAreRefusedTogetherAreSpreadAndDoNotMakeTheDelayGrow) {
  RetryPace pace;
  TimePoint last = pace.Next(kBegin);
  EXPECT_EQ(last, kBegin + milliseconds(1));
  for (int i = 1; i < 1000; ++i) {
    const TimePoint next = pace.Next(kBegin);
    EXPECT_EQ(next - last, microseconds(1));
    last = next;
  }
}

TEST(RetryPace, NobodyWaitsLongerThanTheLatest) {
  RetryPace pace;
  TimePoint last;
  constexpr auto kSteps = RetryPace::kLatest / (RetryPace::kShortestDelay / RetryPace::kTriesPerDelay);
  for (auto i = 0; i < kSteps + kSteps / 10; ++i) last = pace.Next(kBegin);
  EXPECT_EQ(last, kBegin + RetryPace::kLatest);
}

TEST(RetryPace, AFiberThatIsStartedMakesTheDelayTheShortestAgain) {
  RetryPace pace;
  TimePoint now = kBegin;
  for (int i = 0; i < 10; ++i) now = pace.Next(now);
  pace.OnStarted();
  now += seconds(1);
  EXPECT_EQ(pace.Next(now), now + RetryPace::kShortestDelay);
}

TEST(RetryPace, MemoryIsAskedForOnceInEachDelay) {
  RetryPace pace;
  TimePoint now = kBegin;
  EXPECT_TRUE(pace.MayAskForMemory(now));
  for (const int delay : {1, 2, 4, 8, 16, 16}) {
    static_cast<void>(pace.Next(now));
    pace.OnNoMemory(now);
    EXPECT_FALSE(pace.MayAskForMemory(now));
    EXPECT_FALSE(pace.MayAskForMemory(now + milliseconds(delay) - microseconds(1)));
    now += milliseconds(delay) + microseconds(100);
    EXPECT_TRUE(pace.MayAskForMemory(now));
  }
  pace.OnStarted();
  EXPECT_FALSE(pace.no_memory());
}

}  // namespace
}  // namespace weft::timer
