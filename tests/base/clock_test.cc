// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/time/clock.h"

#include <gtest/gtest.h>

#include "testing/manual_clock.h"

namespace weft::base {
namespace {

using std::chrono::hours;
using std::chrono::seconds;
using std::chrono::steady_clock;

const Clock::TimePoint kNow{seconds(1'000'000)};

TEST(SteadyClock, GoesOn) {
  const Clock& clock = SteadyClock::Get();
  const auto first = clock.now();
  EXPECT_LE(first, clock.now());
  EXPECT_GE(first, steady_clock::now() - hours(1));
}

TEST(ManualClock, StandsStillUntilItIsMoved) {
  testing::ManualClock clock(kNow);
  const Clock& as_clock = clock;
  EXPECT_EQ(as_clock.now(), kNow);
  EXPECT_EQ(clock.Advance(seconds(2)), kNow + seconds(2));
  EXPECT_EQ(as_clock.now(), kNow + seconds(2));
  clock.Set(kNow);
  EXPECT_EQ(as_clock.now(), kNow);
}

}  // namespace
}  // namespace weft::base
