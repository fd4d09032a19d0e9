// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include "weft/timer/queue/timer_node.h"
#include "weft/timer/worker/alarm.h"

namespace weft::timer {
namespace {

class HousekeepingTest : public ::testing::Test {
 protected:
  static constexpr Tick kPeriod = 1000;

  HousekeepingTest() { housekeeping_.Reset(kPeriod); }

  // Time goes on to what is due next, and a trim finds `left` things left to do. Returns whether there was one.
  bool Next(std::size_t left = 0) {
    const Tick next = housekeeping_.next();
    EXPECT_NE(next, kNever);
    if (next > now_) now_ = next;
    bool trimmed = false;
    housekeeping_.RunIfDue(now_, [&] {
      trimmed = true;
      return left;
    });
    return trimmed;
  }

  Alarm alarm_;
  Housekeeping housekeeping_{&alarm_};
  Tick now_ = 1000;
};

TEST_F(HousekeepingTest, NothingHappensWhenNothingWasRequested) { EXPECT_EQ(housekeeping_.next(), kNever); }

TEST_F(HousekeepingTest, ATrimFollowsAPeriodAfterTheRequestAndThenThereIsSilence) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());  // Starts the clock.
  EXPECT_EQ(now_, 1000u);
  EXPECT_EQ(housekeeping_.next(), 1000 + kPeriod);
  EXPECT_TRUE(Next());
  EXPECT_EQ(now_, 1000 + kPeriod);
  EXPECT_EQ(housekeeping_.next(), kNever);
}

TEST_F(HousekeepingTest, TrimsAreRepeatedUntilNothingIsLeft) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  EXPECT_TRUE(Next(2));
  EXPECT_TRUE(Next(1));
  EXPECT_TRUE(Next(0));
  EXPECT_EQ(now_, 1000 + kPeriod + 2 * Housekeeping::kPauseBetweenParts);
  EXPECT_EQ(housekeeping_.next(), kNever);
}

TEST_F(HousekeepingTest, ActivityPostponesATrim) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  EXPECT_TRUE(Next());
  EXPECT_EQ(housekeeping_.next(), kNever);
}

TEST_F(HousekeepingTest, SteadyActivityPostponesATrimOnlySoOften) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  int periods = 0;
  do {
    housekeeping_.Request();
    ++periods;
  } while (!Next());
  EXPECT_EQ(periods, Housekeeping::kPostponeAtMost);
}

// Each worker's sleep is a request: under a light load the rest of a burst stayed for minutes.
TEST_F(HousekeepingTest, ActivityDoesNotPostponeTheRestOfATrim) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  EXPECT_TRUE(Next(3));
  for (int left = 2; left >= 0; --left) {
    housekeeping_.Request();
    EXPECT_TRUE(Next(left));
  }
  EXPECT_LE(now_, 1000 + 2 * kPeriod);
}

TEST_F(HousekeepingTest, ARequestDuringATrimLeadsToAnother) {
  housekeeping_.Request();
  EXPECT_FALSE(Next());
  now_ = housekeeping_.next();
  housekeeping_.RunIfDue(now_, [&] {
    housekeeping_.Request();
    return 0;
  });
  EXPECT_NE(housekeeping_.next(), kNever);
  EXPECT_FALSE(Next());
  EXPECT_TRUE(Next());
  EXPECT_EQ(housekeeping_.next(), kNever);
}

}  // namespace
}  // namespace weft::timer
