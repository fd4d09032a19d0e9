// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/clock.h"

#include <gtest/gtest.h>

#include <limits>

#include "testing/manual_clock.h"

namespace weft::base {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using TimePoint = Deadline::TimePoint;

const TimePoint kNow{seconds(1'000'000)};

TEST(SaturatingNanoseconds, ConvertsExactlyWhatFits) {
  EXPECT_EQ(SaturatingNanoseconds(nanoseconds(7)), nanoseconds(7));
  EXPECT_EQ(SaturatingNanoseconds(milliseconds(-3)), nanoseconds(-3'000'000));
  EXPECT_EQ(SaturatingNanoseconds(hours(1)), nanoseconds(3'600'000'000'000));
  EXPECT_EQ(SaturatingNanoseconds(std::chrono::duration<double>(0.5)), nanoseconds(500'000'000));
  EXPECT_EQ(SaturatingNanoseconds(std::chrono::duration<std::uint64_t, std::micro>(2)), nanoseconds(2000));
}

TEST(SaturatingNanoseconds, RoundsUpSoThatADeadlineIsNeverEarly) {
  using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
  using Third = std::chrono::duration<std::int64_t, std::ratio<1, 3>>;
  EXPECT_EQ(SaturatingNanoseconds(Picoseconds(1)), nanoseconds(1));
  EXPECT_EQ(SaturatingNanoseconds(Picoseconds(1000)), nanoseconds(1));
  EXPECT_EQ(SaturatingNanoseconds(Picoseconds(-1)), nanoseconds(0));
  EXPECT_EQ(SaturatingNanoseconds(Third(1)), nanoseconds(333'333'334));
  EXPECT_EQ(SaturatingNanoseconds(std::chrono::duration<double, std::nano>(1.25)), nanoseconds(2));
}

TEST(SaturatingNanoseconds, SaturatesWhatDoesNotFit) {
  EXPECT_EQ(SaturatingNanoseconds(hours::max()), nanoseconds::max());
  EXPECT_EQ(SaturatingNanoseconds(hours::min()), nanoseconds::min());
  EXPECT_EQ(SaturatingNanoseconds(std::chrono::years::max()), nanoseconds::max());
  EXPECT_EQ(SaturatingNanoseconds(nanoseconds::max()), nanoseconds::max());
  using Unsigned = std::chrono::duration<std::uint64_t>;
  EXPECT_EQ(SaturatingNanoseconds(Unsigned::max()), nanoseconds::max());
  using Real = std::chrono::duration<double>;
  EXPECT_EQ(SaturatingNanoseconds(Real::max()), nanoseconds::max());
  EXPECT_EQ(SaturatingNanoseconds(-Real::max()), nanoseconds::min());
  EXPECT_EQ(SaturatingNanoseconds(Real(std::numeric_limits<double>::infinity())), nanoseconds::max());
  EXPECT_EQ(SaturatingNanoseconds(Real(std::numeric_limits<double>::quiet_NaN())), nanoseconds(0));
}

TEST(Deadline, IsInfiniteByDefaultAndThenNeverExpires) {
  EXPECT_TRUE(Deadline().is_infinite());
  EXPECT_EQ(Deadline(), Deadline::Infinite());
  EXPECT_FALSE(Deadline().expired(TimePoint::max()));
  EXPECT_FALSE(Deadline().expired());
}

TEST(Deadline, ExpiresAtItsTimeAndNotBefore) {
  const Deadline deadline = Deadline::After(microseconds(5), kNow);
  EXPECT_FALSE(deadline.expired(kNow));
  EXPECT_FALSE(deadline.expired(kNow + nanoseconds(4999)));
  EXPECT_TRUE(deadline.expired(kNow + nanoseconds(5000)));
  EXPECT_TRUE(deadline.expired(kNow + hours(1)));
  EXPECT_EQ(deadline.time_point(), kNow + microseconds(5));
}

TEST(Deadline, AfterTheLongestDurationOfAnyUnitIsInfiniteInsteadOfOverflowing) {
  EXPECT_TRUE(Deadline::After(hours::max(), kNow).is_infinite());
  EXPECT_TRUE(Deadline::After(nanoseconds::max(), kNow).is_infinite());
  EXPECT_TRUE(Deadline::After(std::chrono::years::max()).is_infinite());
  EXPECT_TRUE(Deadline::After(std::chrono::duration<double>::max()).is_infinite());
}

TEST(Deadline, AfterANegativeDurationHasExpired) {
  EXPECT_TRUE(Deadline::After(seconds(-1), kNow).expired(kNow));
  EXPECT_TRUE(Deadline::After(hours::min(), kNow).expired(kNow));
  EXPECT_TRUE(Deadline::After(hours::min()).expired());
}

TEST(Deadline, TakesTimePointsOfItsOwnClockAsTheyAre) {
  EXPECT_EQ(Deadline::At(kNow).time_point(), kNow);
  EXPECT_TRUE(Deadline::At(TimePoint::max()).is_infinite());
  EXPECT_TRUE(Deadline::At(TimePoint::min()).expired(kNow));
  EXPECT_TRUE(Deadline::At(std::chrono::time_point<steady_clock, hours>::max()).is_infinite());
}

TEST(Deadline, ConvertsTimePointsOfAnotherClockByTheirDistanceFromItsNow) {
  const auto before = steady_clock::now();
  const Deadline deadline = Deadline::At(system_clock::now() + seconds(100));
  const auto after = steady_clock::now();
  // The two clocks are read one after the other: allow for the thread being away in between.
  EXPECT_GE(deadline.time_point(), before + seconds(99));
  EXPECT_LE(deadline.time_point(), after + seconds(101));
}

TEST(Deadline, SaturatesTimePointsOfAnotherClock) {
  EXPECT_TRUE(Deadline::At(system_clock::time_point::max()).is_infinite());
  EXPECT_TRUE((Deadline::At(std::chrono::time_point<system_clock, hours>::max()).is_infinite()));
  EXPECT_TRUE(Deadline::At(system_clock::time_point::min()).expired());
  EXPECT_TRUE(Deadline::At(system_clock::time_point()).expired());
}

TEST(Deadline, IsOrderedByTime) {
  EXPECT_LT(Deadline::At(kNow), Deadline::After(nanoseconds(1), kNow));
  EXPECT_LT(Deadline::At(kNow), Deadline::Infinite());
}

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
