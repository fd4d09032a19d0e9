// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/time/cycle_clock.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace weft::base {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr TimePoint kStart{std::chrono::seconds(1000)};

TEST(CycleScale, TimesBetweenTwoReadingsAreInProportion) {
  const CycleScale scale({.cycles = 1'000'000, .time = kStart},
                         {.cycles = 4'000'000, .time = kStart + milliseconds(1)});
  EXPECT_EQ(scale.TimeOf(1'000'000), kStart);
  EXPECT_EQ(scale.TimeOf(2'500'000), kStart + nanoseconds(500'000));
  EXPECT_EQ(scale.TimeOf(4'000'000), kStart + milliseconds(1));
}

TEST(CycleScale, ATimeAfterTheLastReadingIsLater) {
  const CycleScale scale({.cycles = 0, .time = kStart}, {.cycles = 1'000, .time = kStart + nanoseconds(1'000)});
  EXPECT_EQ(scale.TimeOf(1'500), kStart + nanoseconds(1'500));
}

TEST(CycleScale, WithOneReadingAllTimesAreItsOwn) {
  const CycleScale scale({.cycles = 7, .time = kStart}, {.cycles = 7, .time = kStart});
  EXPECT_EQ(scale.TimeOf(5), kStart);
}

TEST(CycleScale, AgreesWithTheSteadyClock) {
  CycleClock::Choose();
  const auto first = CycleScale::Reading::Now();
  const auto before = std::chrono::steady_clock::now();
  const std::uint64_t cycles = CycleClock::Now();
  const auto after = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - after < milliseconds(2)) {
  }
  const CycleScale scale(first, CycleScale::Reading::Now());
  // A reading of both clocks may be interrupted in all of its tries on a busy machine.
  constexpr milliseconds kSlack{1};
  EXPECT_GE(scale.TimeOf(cycles), before - kSlack);
  EXPECT_LE(scale.TimeOf(cycles), after + kSlack);
}

}  // namespace
}  // namespace weft::base
