// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/worker_mask.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::base {
namespace {

TEST(WorkerMask, StartsEmpty) {
  constexpr WorkerMask mask;
  EXPECT_TRUE(mask.Empty());
  EXPECT_EQ(mask.Count(), 0u);
  EXPECT_EQ(mask, WorkerMask::First(0));
}

TEST(WorkerMask, FirstHoldsExactlyTheFirstNOfEachSize) {
  for (unsigned n = 0; n <= WorkerMask::kCapacity; ++n) {
    const WorkerMask mask = WorkerMask::First(n);
    EXPECT_EQ(mask.Count(), n);
    for (unsigned worker = 0; worker < WorkerMask::kCapacity; ++worker) EXPECT_EQ(mask.Contains(worker), worker < n);
  }
}

TEST(WorkerMask, AddsAndRemovesEachWorkerUpToTheLast) {
  for (unsigned worker = 0; worker < WorkerMask::kCapacity; ++worker) {
    WorkerMask mask;
    mask.Add(worker);
    EXPECT_EQ(mask, WorkerMask::Of(worker));
    EXPECT_TRUE(mask.Contains(worker));
    EXPECT_EQ(mask.Lowest(), worker);
    mask.Add(worker);
    EXPECT_EQ(mask.Count(), 1u);
    mask.Remove(worker);
    EXPECT_TRUE(mask.Empty());
    mask.Remove(worker);
    EXPECT_TRUE(mask.Empty());
  }
}

TEST(WorkerMask, PopsEachWorkerOnceInRisingOrder) {
  const std::set<unsigned> workers = {0, 1, 31, 32, 33, 62, 63};
  WorkerMask mask;
  for (unsigned worker : workers) mask.Add(worker);
  for (unsigned worker : workers) EXPECT_EQ(mask.PopLowest(), worker);
  EXPECT_TRUE(mask.Empty());
}

TEST(WorkerMask, CombinesAsSets) {
  const WorkerMask low = WorkerMask::First(8);
  const WorkerMask seven_and_sixty = WorkerMask::Of(7) | WorkerMask::Of(60);
  EXPECT_EQ(low & seven_and_sixty, WorkerMask::Of(7));
  EXPECT_EQ(seven_and_sixty - low, WorkerMask::Of(60));
  EXPECT_EQ((low | seven_and_sixty).Count(), 9u);
  EXPECT_EQ(WorkerMask::FromBits(low.bits()), low);
}

#ifndef NDEBUG
TEST(WorkerMaskDeathTest, RefusesTheLowestOfNone) { EXPECT_DEATH(WorkerMask().Lowest(), "the set is empty"); }
TEST(WorkerMaskDeathTest, RefusesAWorkerBeyondItsCapacity) { EXPECT_DEATH(WorkerMask::Of(64), "worker 64"); }
#endif

}  // namespace
}  // namespace weft::base
