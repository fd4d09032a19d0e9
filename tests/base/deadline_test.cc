// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/deadline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <ratio>
#include <string>
#include <type_traits>

#include "testing/clock_reads.h"

namespace weft {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;
using testing::ClockReadsOf;
using TimePoint = Deadline::TimePoint;
using Real = std::chrono::duration<double>;

const TimePoint kNow{seconds(1'000'000)};
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();

// --- What converts ---

static_assert(std::is_convertible_v<nanoseconds, Deadline>);
static_assert(std::is_convertible_v<std::chrono::duration<float, std::ratio<1, 60>>, Deadline>);
static_assert(std::is_convertible_v<TimePoint, Deadline>);
static_assert(std::is_convertible_v<system_clock::time_point, Deadline>);
static_assert(std::is_convertible_v<std::chrono::time_point<std::chrono::file_clock, seconds>, Deadline>);
// A number has no unit, a calendar date no clock.
static_assert(!std::is_constructible_v<Deadline, int>);
static_assert(!std::is_constructible_v<Deadline, std::nullptr_t>);
static_assert(!std::is_constructible_v<Deadline, std::chrono::local_seconds>);

// As functions of Weft take it.
TimePoint Wait(int, Deadline deadline = {}) { return deadline.time_point(); }

TEST(Deadline, IsTakenFromNothingFromADurationAndFromATimePoint) {
  EXPECT_EQ(Wait(1), TimePoint::max());
  EXPECT_EQ(Wait(1, {}), TimePoint::max());
  EXPECT_EQ(Wait(1, kNow), kNow);
  const auto before = steady_clock::now();
  EXPECT_GE(Wait(1, milliseconds(5)), before + milliseconds(5));
  EXPECT_GE(Wait(1, system_clock::now() + hours(1)), before + hours(1));
}

TEST(Deadline, IsNoneByDefaultAndThenNeverExpires) {
  constexpr Deadline none;
  EXPECT_TRUE(none.is_none());
  EXPECT_EQ(none, Deadline::None());
  EXPECT_EQ(none.time_point(), TimePoint::max());
  EXPECT_FALSE(none.expired(TimePoint::max()));
  EXPECT_FALSE(none.expired());
  EXPECT_EQ(none.remaining(), nanoseconds::max());
}

// --- Durations ---

TEST(Deadline, ExpiresAtItsTimeAndNotBefore) {
  const Deadline deadline = Deadline::After(microseconds(5), kNow);
  EXPECT_FALSE(deadline.expired(kNow));
  EXPECT_FALSE(deadline.expired(kNow + nanoseconds(4999)));
  EXPECT_TRUE(deadline.expired(kNow + nanoseconds(5000)));
  EXPECT_TRUE(deadline.expired(kNow + hours(1)));
  EXPECT_EQ(deadline.time_point(), kNow + microseconds(5));
}

TEST(Deadline, CountsADurationFromTheConversion) {
  const auto before = steady_clock::now();
  const Deadline deadline = seconds(100);
  const auto after = steady_clock::now();
  EXPECT_GE(deadline.time_point(), before + seconds(100));
  EXPECT_LE(deadline.time_point(), after + seconds(100));
}

TEST(Deadline, OfADurationOfZeroOrBelowOrThatIsNoNumberHasExpired) {
  const Deadline zero = seconds(0);
  EXPECT_TRUE(zero.expired());
  EXPECT_TRUE(zero.expired(TimePoint::min()));
  EXPECT_EQ(zero.remaining(), nanoseconds(0));
  EXPECT_FALSE(zero.is_none());
  for (const Deadline expired : {Deadline(seconds(-1)), Deadline(nanoseconds(-1)), Deadline(hours::min()),
                                 Deadline(Real(-0.0)), Deadline(Real(-kInfinity)), Deadline(Real(kNotANumber))}) {
    EXPECT_EQ(expired, zero);
  }
  EXPECT_TRUE(Deadline::After(seconds(-1), kNow).expired(kNow));
  EXPECT_TRUE(Deadline::After(hours::min(), kNow).expired(kNow));
}

TEST(Deadline, OfTheLongestDurationOfAnyUnitIsNoneInsteadOfAnOverflow) {
  EXPECT_TRUE(Deadline(nanoseconds::max()).is_none());
  EXPECT_TRUE(Deadline(nanoseconds::max() - nanoseconds(1)).is_none());
  EXPECT_TRUE(Deadline(microseconds::max()).is_none());
  EXPECT_TRUE(Deadline(hours::max()).is_none());
  EXPECT_TRUE(Deadline(std::chrono::years::max()).is_none());
  EXPECT_TRUE(Deadline(Real::max()).is_none());
  EXPECT_TRUE(Deadline(Real(kInfinity)).is_none());
  EXPECT_TRUE(Deadline(std::chrono::duration<std::uint64_t>::max()).is_none());
  EXPECT_TRUE(Deadline::After(hours::max(), kNow).is_none());
  EXPECT_TRUE(Deadline::After(nanoseconds::max(), kNow).is_none());
  EXPECT_TRUE(Deadline::After(nanoseconds::min(), TimePoint::min()).expired(TimePoint::min()));
  EXPECT_TRUE(Deadline::After(nanoseconds::max(), TimePoint::max()).is_none());
  for (const TimePoint before_epoch : {TimePoint(nanoseconds(-1)), TimePoint(-seconds(1'000'000)), TimePoint::min()}) {
    EXPECT_TRUE(Deadline::After(nanoseconds::max(), before_epoch).is_none());
    EXPECT_TRUE(Deadline::After(hours::max(), before_epoch).is_none());
    EXPECT_TRUE(Deadline::After(Real(kInfinity), before_epoch).is_none());
    EXPECT_FALSE(Deadline::After(nanoseconds::max() - nanoseconds(1), before_epoch).is_none());
  }
}

TEST(Deadline, RoundsFractionsOfANanosecondUp) {
  using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
  EXPECT_EQ(Deadline::After(Picoseconds(1), kNow).time_point(), kNow + nanoseconds(1));
  EXPECT_EQ(Deadline::After(Real(1.5e-9), kNow).time_point(), kNow + nanoseconds(2));
  EXPECT_FALSE(Deadline(Picoseconds(1)).time_point() < TimePoint()) << "not taken for 0";
}

TEST(Deadline, OfAnyDurationAndAnyPresentIsTheSumCutToTheClockAndOfTheLongestNone) {
  std::mt19937_64 random(15);
  const auto any = [&] {
    const auto bits = static_cast<std::int64_t>(random()) >> (random() % 64);
    switch (random() % 4) {
      case 0:
        return std::numeric_limits<std::int64_t>::max() - (bits & 3);
      case 1:
        return std::numeric_limits<std::int64_t>::min() + (bits & 3);
      default:
        return bits;
    }
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::int64_t now = any();
    const std::int64_t duration = any();
    const std::int64_t later = any();
    const Deadline deadline = Deadline::After(nanoseconds(duration), TimePoint(nanoseconds(now)));
    constexpr std::int64_t kForever = std::numeric_limits<std::int64_t>::max();
    const std::int64_t sum =
        duration == kForever ? kForever : base::SaturateToInt64(static_cast<base::Int128>(now) + duration);
    const bool none = sum == kForever;
    ASSERT_EQ(deadline.time_point().time_since_epoch().count(), sum) << now << " + " << duration;
    ASSERT_EQ(deadline.is_none(), none);
    ASSERT_EQ(deadline.expired(TimePoint(nanoseconds(later))), !none && sum <= later);
    const auto left = static_cast<base::Int128>(sum) - later;
    const nanoseconds remaining = deadline.remaining(TimePoint(nanoseconds(later)));
    ASSERT_EQ(remaining.count(), none ? nanoseconds::max().count() : left <= 0 ? 0 : base::SaturateToInt64(left));
  }
}

// --- Time points ---

TEST(Deadline, TakesTimePointsOfTheSteadyClockAsTheyAre) {
  EXPECT_EQ(Deadline(kNow).time_point(), kNow);
  EXPECT_TRUE(Deadline(TimePoint::max()).is_none());
  EXPECT_TRUE(Deadline(TimePoint::min()).expired());
  EXPECT_TRUE(Deadline(std::chrono::time_point<steady_clock, hours>::max()).is_none());
  EXPECT_TRUE(Deadline(std::chrono::time_point<steady_clock, hours>::min()).expired());
  using FloatPoint = std::chrono::time_point<steady_clock, std::chrono::duration<float>>;
  EXPECT_TRUE(Deadline(FloatPoint::max()).is_none());
  EXPECT_TRUE(Deadline(FloatPoint::min()).expired());
  EXPECT_EQ(Deadline(FloatPoint(std::chrono::duration<float>(0.5f))).time_point(), TimePoint(milliseconds(500)));
}

TEST(Deadline, ConvertsTimePointsOfAnotherClockByTheirDistanceFromItsPresent) {
  const auto before = steady_clock::now();
  const Deadline deadline = system_clock::now() + seconds(100);
  const auto after = steady_clock::now();
  // The two clocks are read one after the other: allow for the thread being descheduled in between.
  EXPECT_GE(deadline.time_point(), before + seconds(99));
  EXPECT_LE(deadline.time_point(), after + seconds(101));
}

TEST(Deadline, SaturatesTimePointsOfAnotherClock) {
  EXPECT_TRUE(Deadline(system_clock::time_point::max()).is_none());
  EXPECT_TRUE((Deadline(std::chrono::time_point<system_clock, hours>::max()).is_none()));
  EXPECT_TRUE((Deadline(std::chrono::time_point<system_clock, Real>::max()).is_none()));
  EXPECT_TRUE(Deadline(system_clock::time_point::min()).expired());
  EXPECT_TRUE((Deadline(std::chrono::time_point<system_clock, hours>::min()).expired()));
  EXPECT_TRUE((Deadline(std::chrono::time_point<system_clock, Real>::min()).expired()));
  EXPECT_TRUE(Deadline(system_clock::time_point()).expired());
}

// Stands still at a time with a fraction of a nanosecond: rounding it up would make deadlines early.
struct FineClock {
  using rep = std::int64_t;
  using period = std::pico;
  using duration = std::chrono::duration<rep, period>;
  using time_point = std::chrono::time_point<FineClock>;
  [[maybe_unused]] static constexpr bool is_steady = true;
  static time_point now() noexcept { return time_point(duration(present)); }
  static inline std::int64_t present = 0;
};

TEST(Deadline, OfAnotherClockIsNeverEarly) {
  const testing::ClockStandsStill still;  // Else passing time would hide half a nanosecond.
  FineClock::present = 1'000'500;
  const auto before = steady_clock::now();
  // 4,999,000.5 ns ahead; half a nanosecond less if the present were rounded up.
  const Deadline deadline = FineClock::time_point(FineClock::duration(5'000'001'000));
  EXPECT_GE(deadline.time_point(), before + nanoseconds(4'999'001));
}

TEST(Deadline, OfAnyTimePointOfAnotherClockIsNotEarlyAndDoesNotOverflow) {
  std::mt19937_64 random(16);
  for (int i = 0; i < 20'000; ++i) {
    FineClock::present = static_cast<std::int64_t>(random()) >> (random() % 64);
    const auto at = static_cast<std::int64_t>(random()) >> (random() % 64);
    const auto before = steady_clock::now();
    const Deadline deadline = FineClock::time_point(FineClock::duration(at));
    const auto after = steady_clock::now();
    const auto ahead = static_cast<base::Int128>(at) - FineClock::present;  // in ps; 2^64 ps are 213 days.
    ASSERT_GE((static_cast<base::Int128>((deadline.time_point() - before).count())) * 1000, ahead);
    ASSERT_LE((static_cast<base::Int128>((deadline.time_point() - after).count()) - 2) * 1000, ahead);
  }
}

// --- Order ---

TEST(Deadline, IsOrderedByTimeWithNoneAsTheLast) {
  EXPECT_LT(Deadline(kNow), Deadline::After(nanoseconds(1), kNow));
  EXPECT_LT(Deadline(kNow), Deadline::None());
  EXPECT_LT(Deadline(seconds(0)), Deadline(kNow));
  EXPECT_EQ(std::min(Deadline(kNow), Deadline()), Deadline(kNow));
}

// --- Cost ---

TEST(Deadline, ReadsTheClockOnlyForADurationAboveZeroAndForAnotherClock) {
  ASSERT_EQ(ClockReadsOf([] { static_cast<void>(steady_clock::now()); }), 1) << "the reads are counted";
  EXPECT_EQ(ClockReadsOf([] { Wait(1); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, kNow); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, seconds(0)); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, milliseconds(-1)); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, hours::max()); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, system_clock::time_point::max()); }), 0);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, seconds(1)); }), 1);
  EXPECT_EQ(ClockReadsOf([] { Wait(1, system_clock::time_point()); }), 1);
}

TEST(Deadline, ThatIsNoneOrOfZeroIsAskedWithoutTheClock) {
  bool expired = false;
  EXPECT_EQ(ClockReadsOf([&] { expired = Deadline(seconds(0)).expired(); }), 0);
  EXPECT_TRUE(expired);
  EXPECT_EQ(ClockReadsOf([&] { expired = Deadline().expired(); }), 0);
  EXPECT_FALSE(expired);
  EXPECT_EQ(ClockReadsOf([] { static_cast<void>(Deadline(seconds(0)).remaining()); }), 0);
  EXPECT_EQ(ClockReadsOf([] { static_cast<void>(Deadline().remaining()); }), 0);
  EXPECT_EQ(ClockReadsOf([] { static_cast<void>(Deadline(kNow).expired()); }), 1);
}

}  // namespace
}  // namespace weft
