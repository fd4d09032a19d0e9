// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Stealing between groups through the whole runtime, by what the scheduler counts.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using scheduling_group::GroupCounts;

struct Totals {
  std::uint64_t begun = 0;
  std::uint64_t finished = 0;
  std::uint64_t stolen_in = 0;
  std::uint64_t stolen_out = 0;
};

Totals Total(const std::vector<GroupCounts>& groups) {
  Totals totals;
  for (const GroupCounts& group : groups) {
    totals.begun += group.Sum().begun;
    totals.finished += group.Sum().finished;
    for (const auto& steals : group.steals) totals.stolen_in += steals.stolen_in;
    totals.stolen_out += group.stolen_out_same_node + group.stolen_out_other_node;
  }
  return totals;
}

// Fibers that compute, all started in group 0. Returns how many ran in each group.
std::vector<int> RunInGroupZero(std::size_t groups, int fibers) {
  std::vector<std::atomic<int>> ran(groups);
  FiberLatch done(fibers);
  for (int i = 0; i < fibers; ++i) {
    EXPECT_TRUE(StartFiberDetached({.scheduling_group = 0}, [&] {
      for (int step = 0; step < 100'000; ++step) base::OpaqueBarrier();
      ran[GetCurrentSchedulingGroupIndex()].fetch_add(1, std::memory_order_relaxed);
      done.CountDown();
    }));
  }
  done.Wait();
  return {ran.begin(), ran.end()};
}

// A loaded group and an idle one share the work: the idle one is woken, and keeps stealing while there is more.
TEST(WorkConservation, AnIdleGroupTakesItsShareOfAnothersLoad) {
  const RuntimeOf runtime(Shape{1, 2});
  constexpr int kFibers = 4000;
  const std::vector<int> ran = RunInGroupZero(2, kFibers);
  // A half each if both have a CPU for themselves; the machine may have other things to do.
  EXPECT_GE(ran[1], kFibers / 50);
  EXPECT_LE(ran[1], kFibers * 49 / 50);
}

// One wake-up pass for all of a batch requested no steal, and nobody pushed afterwards.
TEST(WorkConservation, AnIdleGroupTakesItsShareOfABatch) {
  const RuntimeOf runtime(Shape{1, 2});
  constexpr int kFibers = 4000;
  std::atomic<int> ran_in_group_one{0};
  FiberLatch done(kFibers);
  std::vector<std::function<void()>> batch;
  for (int i = 0; i < kFibers; ++i) {
    batch.emplace_back([&] {
      for (int step = 0; step < 100'000; ++step) base::OpaqueBarrier();
      if (GetCurrentSchedulingGroupIndex() == 1) ran_in_group_one.fetch_add(1, std::memory_order_relaxed);
      done.CountDown();
    });
  }
  Fiber({.scheduling_group = 0, .scheduling_group_local = true}, [&] {
    ASSERT_TRUE(BatchStartFiberDetached(std::move(batch)));
  }).Join();
  done.Wait();
  EXPECT_GE(ran_in_group_one, kFibers / 50);
}

TEST(WorkConservation, WithRatioZeroEachGroupKeepsItsOwn) {
  RuntimeOptions options = OptionsOf({1, 2});
  options.work_stealing_ratio = 0;
  const RuntimeOf runtime(options);
  EXPECT_EQ(RunInGroupZero(2, 500), (std::vector<int>{500, 0}));
}

class StealingStress : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, StealingStress, ::testing::Values(Shape{1, 2}, Shape{2, 3}, Shape{1, 8}), &NameOf);

TEST_P(StealingStress, EveryFiberFinishesOnceAndWhatIsStolenInWasStolenOut) {
  RuntimeOptions options = OptionsOf(GetParam());
  options.work_stealing_ratio = 1;
  const RuntimeOf runtime(options);
  constexpr int kFibers = 20'000;
  FiberLatch done(kFibers);
  const auto groups = static_cast<std::size_t>(GetParam().groups);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached({.scheduling_group = static_cast<std::size_t>(i) % 3 % groups}, [&, i] {
      if (i % 2 == 0) FiberYield();
      if (i % 16 == 0) FiberSleepFor(100us);
      done.CountDown();
    }));
  }
  done.Wait();
  while (GetFiberCount() != 0) std::this_thread::yield();
  // (A worker counts the end of a fiber before it frees the fiber.)
  const Totals after = Total(GetSchedulingCounts());
  EXPECT_EQ(after.begun, static_cast<std::uint64_t>(kFibers));
  EXPECT_EQ(after.finished, static_cast<std::uint64_t>(kFibers));
  EXPECT_EQ(after.stolen_in, after.stolen_out);
  EXPECT_GT(after.stolen_in, 0u);
}

}  // namespace
}  // namespace weft::fiber
