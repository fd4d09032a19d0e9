// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/time/clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <random>
#include <ratio>

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

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

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

TEST(SaturatingNanoseconds, RoundsDownWhereItIsTold) {
  using Picoseconds = std::chrono::duration<std::int64_t, std::pico>;
  using Real = std::chrono::duration<double, std::nano>;
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Picoseconds(1999)), nanoseconds(1));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Picoseconds(-1)), nanoseconds(-1));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Picoseconds(-1000)), nanoseconds(-1));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Real(1.75)), nanoseconds(1));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Real(-1.25)), nanoseconds(-2));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(Real(-2)), nanoseconds(-2));
  EXPECT_EQ(SaturatingNanoseconds<Rounding::kDown>(hours::min()), nanoseconds::min());
}

// Compares with a division that rounds down, plus one if there is a remainder.
template <class Duration>
class SaturatingNanosecondsOf : public ::testing::Test {};

using Durations =
    ::testing::Types<nanoseconds, std::chrono::microseconds, milliseconds, std::chrono::seconds, std::chrono::minutes,
                     hours, std::chrono::days, std::chrono::years, std::chrono::duration<std::int8_t, std::giga>,
                     std::chrono::duration<std::uint8_t>, std::chrono::duration<std::int32_t, std::milli>,
                     std::chrono::duration<std::uint64_t, std::nano>, std::chrono::duration<std::uint64_t, std::micro>,
                     std::chrono::duration<std::int64_t, std::pico>, std::chrono::duration<std::int64_t, std::femto>,
                     std::chrono::duration<std::int64_t, std::ratio<1, 3>>,
                     std::chrono::duration<std::int64_t, std::ratio<1000, 1001>>>;
TYPED_TEST_SUITE(SaturatingNanosecondsOf, Durations);

TYPED_TEST(SaturatingNanosecondsOf, IsTheExactValueRoundedAndCut) {
  using Rep = typename TypeParam::rep;
  using Limits = std::numeric_limits<Rep>;
  std::mt19937_64 random(20261123);
  const auto check = [](Rep count) {
    // In 128 bits; the periods above leave room.
    using Factor = std::ratio_divide<typename TypeParam::period, std::nano>;
    const Int128 scaled = static_cast<Int128>(count) * Factor::num;
    Int128 down = scaled / Factor::den;
    if (scaled < down * Factor::den) --down;
    const Int128 up = down * Factor::den == scaled ? down : down + 1;
    ASSERT_EQ(SaturatingNanoseconds(TypeParam(count)).count(), SaturateToInt64(up)) << +count;
    ASSERT_EQ(SaturatingNanoseconds<Rounding::kDown>(TypeParam(count)).count(), SaturateToInt64(down)) << +count;
  };
  for (int offset = 0; offset < 3; ++offset) {
    check(static_cast<Rep>(Limits::max() - offset));
    check(static_cast<Rep>(Limits::min() + offset));
    check(static_cast<Rep>(offset));
    if (Limits::is_signed) check(static_cast<Rep>(-offset));
  }
  // Of all sizes: a random number of random bits.
  for (int i = 0; i < 2000; ++i) check(static_cast<Rep>(static_cast<Rep>(random()) >> (random() % Limits::digits)));
}

}  // namespace
}  // namespace weft::base
