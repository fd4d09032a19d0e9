// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/tests/testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using testing::Countdown;
using testing::WorkerGroup;

class CountersTest : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, CountersTest, ::testing::Values(1u, 2u, 4u),
                         [](const auto& info) { return std::to_string(info.param) + "Workers"; });

// CT1
TEST_P(CountersTest, EveryFiberThatBeganHasFinishedOnce) {
  WorkerGroup group(GetParam());
  constexpr int kFibers = 3000;
  Countdown done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(group.Start([&, i] {
      if (i % 3 == 0) YieldCurrentFiber();
      done.Done();
    }));
  }
  ASSERT_TRUE(done.Wait());
  group.Drain();
  const GroupCounts counts = ReadCounts(group.group());
  EXPECT_EQ(counts.Sum().begun, static_cast<std::uint64_t>(kFibers));
  EXPECT_EQ(counts.Sum().finished, static_cast<std::uint64_t>(kFibers));
  EXPECT_GE(counts.Sum().switches, static_cast<std::uint64_t>(kFibers / 3));
  EXPECT_EQ(counts.workers.size(), GetParam());
  EXPECT_EQ(counts.ready, 0u);
}

TEST_P(CountersTest, AWorkerThatIsWokenHasSlept) {
  WorkerGroup group(GetParam());
  constexpr std::uint64_t kRounds = 50;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    while (group.group().idle_workers().sleepers().Count() != GetParam()) std::this_thread::yield();
    Countdown done(1);
    ASSERT_TRUE(group.Start([&] { done.Done(); }));
    ASSERT_TRUE(done.Wait());
  }
  const WorkerCounts sum = ReadCounts(group.group()).Sum();
  EXPECT_GE(sum.wakes, 1u);
  EXPECT_LE(sum.wakes, sum.sleeps);
  EXPECT_GE(sum.idle_searches, sum.sleeps);
  EXPECT_GE(sum.spins, 1u);
}

// A worker that finds no work asks its neighbour at every n-th of these occasions: the rate that steal_every_n is.
class StealRateTest : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(EveryN, StealRateTest, ::testing::Values(1u, 4u, 16u, 64u),
                         [](const auto& info) { return "Every" + std::to_string(info.param); });

TEST_P(StealRateTest, AttemptsPerIdleSearchAreOneInN) {
  const unsigned every_n = GetParam();
  WorkerGroup idle({.id = 0, .workers = 1, .run_queue_size = 64});
  WorkerGroup looks({.id = 1, .workers = 1, .run_queue_size = 64}, {{&idle.group(), every_n}});
  const auto counts = [&] { return ReadCounts(looks.group()); };
  while (counts().Sum().idle_searches < 100 * every_n) {
    Countdown done(1);
    ASSERT_TRUE(looks.Start([&] { done.Done(); }));
    ASSERT_TRUE(done.Wait());
  }
  looks.Drain();
  const GroupCounts after = counts();
  const double rate = static_cast<double>(after.steals[0].attempts) / static_cast<double>(after.Sum().idle_searches);
  EXPECT_NEAR(rate * every_n, 1.0, 0.1);
  EXPECT_EQ(after.steals[0].stolen_in, 0u);
  EXPECT_EQ(after.steals[0].every_n, every_n);
}

TEST(StealRate, NoAttemptIsMadeIfTheRatioIsZero) {
  WorkerGroup idle({.id = 0, .workers = 1, .run_queue_size = 64});
  WorkerGroup looks({.id = 1, .workers = 1, .run_queue_size = 64}, {{&idle.group(), 0}});
  for (int i = 0; i < 200; ++i) {
    Countdown done(1);
    ASSERT_TRUE(looks.Start([&] { done.Done(); }));
    ASSERT_TRUE(done.Wait());
  }
  EXPECT_EQ(ReadCounts(looks.group()).steals[0].attempts, 0u);
}

// CT2, with groups that steal from each other in all directions, near and far.
TEST(StealCounts, WhatIsStolenInWasStolenOut) {
  constexpr int kGroups = 3;
  constexpr int kFarGroup = 2;
  std::vector<std::unique_ptr<WorkerGroup>> groups;
  for (int g = 0; g < kGroups; ++g) {
    // The later ones steal from those that are there already.
    std::vector<SchedulingGroup::Neighbour> neighbours;
    for (int other = 0; other < g; ++other) {
      neighbours.push_back(
          {&groups[static_cast<std::size_t>(other)]->group(), 1, g == kFarGroup ? 21 : SchedulingGroup::kSameNode});
    }
    groups.push_back(std::make_unique<WorkerGroup>(
        SchedulingGroup::Options{.id = g, .workers = 1, .run_queue_size = 4096}, std::move(neighbours)));
  }
  constexpr int kFibers = 2000;
  Countdown done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(groups[static_cast<std::size_t>(i % 2)]->Start([&] {
      for (int y = 0; y < 5; ++y) YieldCurrentFiber();
      done.Done();
    }));
    if (i % 8 == 0) {
      Countdown poke(1);  // An idle search of the third.
      ASSERT_TRUE(groups[kFarGroup]->Start([&] { poke.Done(); }));
      ASSERT_TRUE(poke.Wait());
    }
  }
  ASSERT_TRUE(done.Wait());
  groups[0]->Drain();
  std::uint64_t in_near = 0, in_far = 0, out_near = 0, out_far = 0, begun = 0, finished = 0;
  for (const auto& group : groups) {
    const GroupCounts counts = ReadCounts(group->group());
    for (const StealCounts& steals : counts.steals) {
      (steals.distance == SchedulingGroup::kSameNode ? in_near : in_far) += steals.stolen_in;
      EXPECT_LE(steals.stolen_in, steals.attempts);
    }
    out_near += counts.stolen_out_same_node;
    out_far += counts.stolen_out_other_node;
    begun += counts.Sum().begun;
    finished += counts.Sum().finished;
  }
  EXPECT_EQ(in_near, out_near);
  EXPECT_EQ(in_far, out_far);
  EXPECT_GT(in_far, 0u);
  EXPECT_EQ(begun, kFibers + kFibers / 8u);
  EXPECT_EQ(finished, begun);
  // A group is stolen from as long as a later one runs.
  while (!groups.empty()) groups.pop_back();
}

// They lay on the node of the thread that started the runtime. (tests/guest/memory_test.cc looks at the pages.)
TEST(GroupMemory, HoldsTheNeighbourListAndTheStealCounters) {
  SchedulingGroup group({.id = 0, .workers = 2, .run_queue_size = 64});
  SchedulingGroup other({.id = 1, .workers = 1, .run_queue_size = 64});
  group.SetNeighbours({{.group = &other, .steal_every_n = 16}});
  const auto holds = [pieces = group.Memory()](const auto& object) {
    const auto bytes = std::as_bytes(std::span(&object, 1));
    return std::any_of(pieces.begin(), pieces.end(), [&](std::span<const std::byte> piece) {
      return piece.data() <= bytes.data() && bytes.data() + bytes.size() <= piece.data() + piece.size();
    });
  };
  const SchedulingGroup::NeighbourList& list = group.neighbours();
  EXPECT_TRUE(holds(list.partner_mask));
  EXPECT_TRUE(holds(list.all[0]));
  EXPECT_TRUE(holds(list.partners[0]));
  EXPECT_TRUE(holds(list.counters(0, 0)));
  EXPECT_TRUE(holds(list.counters(1, 0)));
}

}  // namespace
}  // namespace weft::scheduling_group
