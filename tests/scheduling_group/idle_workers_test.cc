// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/idle/idle_workers.h"

#include <gtest/gtest.h>

namespace weft::scheduling_group {
namespace {

TEST(IdleWorkers, NobodyIsWokenWhenNobodySleeps) {
  IdleWorkers idle;
  EXPECT_EQ(idle.ClaimWorkerToWake(), IdleWorkers::kNobody);
}

TEST(IdleWorkers, TheLowestSleeperIsClaimedAndCountsAsASpinner) {
  IdleWorkers idle;
  for (unsigned w : {5u, 3u, 63u}) idle.PrepareSleep(w);
  EXPECT_EQ(idle.ClaimWorkerToWake(), 3);
  EXPECT_EQ(idle.spinners(), 1u);
  EXPECT_FALSE(idle.CancelSleep(3)) << "it was claimed, not awake by itself";
  EXPECT_TRUE(idle.sleepers().Contains(5));
}

TEST(IdleWorkers, TheOneThatSleepsInThePollIsClaimedLast) {
  IdleWorkers idle;
  for (unsigned w : {0u, 1u}) idle.PrepareSleep(w);
  idle.SetInPoll(0, true);
  EXPECT_EQ(idle.ClaimWorkerToWake(), 1);
  idle.StopSpinning();
  EXPECT_EQ(idle.ClaimWorkerToWake(), 0);
  idle.StopSpinning();
  idle.SetInPoll(0, false);
  for (unsigned w : {0u, 1u}) idle.PrepareSleep(w);
  EXPECT_EQ(idle.ClaimWorkerToWake(), 0);
}

TEST(IdleWorkers, WhileSomeoneSpinsNobodyIsWoken) {
  IdleWorkers idle;
  idle.PrepareSleep(0);
  ASSERT_TRUE(idle.TryStartSpinning());
  EXPECT_EQ(idle.ClaimWorkerToWake(), IdleWorkers::kNobody);
  idle.StopSpinning();
  EXPECT_EQ(idle.ClaimWorkerToWake(), 0);
}

TEST(IdleWorkers, AtMostTwoSpin) {
  IdleWorkers idle;
  EXPECT_TRUE(idle.TryStartSpinning());
  EXPECT_TRUE(idle.TryStartSpinning());
  EXPECT_FALSE(idle.TryStartSpinning());
  idle.StopSpinning();
  EXPECT_TRUE(idle.TryStartSpinning());
}

TEST(IdleWorkers, WhoGetsUpByItselfIsNotClaimed) {
  IdleWorkers idle;
  idle.PrepareSleep(7);
  EXPECT_TRUE(idle.CancelSleep(7));
  EXPECT_EQ(idle.ClaimWorkerToWake(), IdleWorkers::kNobody);
  EXPECT_EQ(idle.spinners(), 0u);
}

// A peer's bit arithmetic claims the wrong workers for some sets of sleepers, or none, and still says that it woke
// them.
TEST(IdleWorkers, BatchWakeChoosesSleepersForEverySetOfSleepers) {
  for (std::uint64_t set :
       {0xffull, 0x55ull, 0x8000'0000'0000'0000ull, 0xffff'ffff'0000'0000ull, 0x8000'0000ull, 1ull}) {
    IdleWorkers idle;
    base::WorkerMask sleepers = base::WorkerMask::FromBits(set);
    for (unsigned w = 0; w < 64; ++w) {
      if (sleepers.Contains(w)) idle.PrepareSleep(w);
    }
    while (!sleepers.Empty()) {
      // One producer wakes the first; each worker woken finds more work and wakes the next.
      EXPECT_EQ(idle.ClaimWorkerToWake(), static_cast<int>(sleepers.PopLowest()));
      EXPECT_EQ(idle.ClaimWorkerToWake(), IdleWorkers::kNobody) << "one is on its way already";
      idle.StopSpinning();
    }
    EXPECT_EQ(idle.ClaimWorkerToWake(), IdleWorkers::kNobody);
  }
}

}  // namespace
}  // namespace weft::scheduling_group
