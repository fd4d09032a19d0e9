// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_barrier.h"

#include <gtest/gtest.h>

#include <atomic>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using testing::Crew;
using testing::Scaled;

class FiberBarrierTest : public testing::OnAnyCrew {};

TEST_P(FiberBarrierTest, NobodyPassesBeforeAllHaveArrived) {
  constexpr int kActors = 5;
  const int phases = Scaled(500);
  std::atomic<int> arrivals{0};
  int completions = 0;
  FiberBarrier barrier(kActors, [&] {
    ++completions;
    EXPECT_EQ(arrivals, completions * kActors) << "the completion runs before anybody goes on";
  });
  Crew crew = MakeCrew();
  crew.AddMany(kActors, [&](int) {
    for (int phase = 1; phase <= phases; ++phase) {
      ++arrivals;
      barrier.ArriveAndWait();
      EXPECT_GE(arrivals, phase * kActors);
    }
  });
  crew.Join();
  EXPECT_EQ(completions, phases);
}

TEST_P(FiberBarrierTest, WhoDropsOutIsNotExpectedAnyMore) {
  constexpr int kActors = 5;
  FiberBarrier barrier(kActors);
  std::atomic<int> phases{0};
  Crew crew = MakeCrew();
  crew.AddMany(kActors, [&](int me) {
    for (int phase = 0; phase < 3 + me; ++phase) {
      barrier.ArriveAndWait();
      ++phases;
    }
    barrier.ArriveAndDrop();
  });
  crew.Join();
  EXPECT_EQ(phases, 3 + 4 + 5 + 6 + 7);
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberBarrierTest);

TEST(FiberBarrier, OfOneNeverWaits) {
  FiberBarrier barrier(1);
  for (int i = 0; i < 3; ++i) barrier.ArriveAndWait();
}

TEST(FiberBarrierDeathTest, BadNumbersEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(FiberBarrier(0), "bad number of participants 0");
  FiberBarrier barrier(1);
  barrier.ArriveAndDrop();
  EXPECT_DEATH(barrier.ArriveAndWait(), "more arrivals than expected");
}

}  // namespace
}  // namespace weft
