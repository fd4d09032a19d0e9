// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// record_stack_every, of a runtime and of a FiberLoop: how deep fibers have gone; and what else a FiberLoop's group
// keeps when it is lent again.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using scheduling_group::GroupOptions;
using scheduling_group::LoopGroup;
using scheduling_group::LoopGroups;

constexpr std::size_t kDeep = 40'000;
constexpr std::size_t kFlat = 16'384;  // Frames of a sanitizer are larger.

WEFT_NOINLINE void GoDeep() {
  char frame[kDeep];
  std::memset(frame, 1, sizeof(frame));
  asm volatile("" : : "r"(frame) : "memory");
}

std::size_t HighWater() {
  std::size_t largest = 0;
  for (const GroupCounts& counts : GetSchedulingCounts()) largest = std::max(largest, counts.stack_high_water);
  return largest;
}

RuntimeOptions Recording(Shape shape, int every) {
  RuntimeOptions options = OptionsOf(shape);
  options.record_stack_every = every;
  return options;
}

class StackHighWaterTest : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, StackHighWaterTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST(StackHighWater, ItIsTheDeepestFibers) {
  RuntimeOf runtime(Recording(Shape{1, 1}, 1));
  // One after the other, each on a stack of its own: a fiber is woken by the end of the one before.
  Fiber([] {}).Join();
  const std::size_t flat = HighWater();
  EXPECT_GT(flat, 0U);
  EXPECT_LT(flat, kFlat);
  Fiber([] { GoDeep(); }).Join();
  EXPECT_GE(HighWater(), kDeep);
  EXPECT_LT(HighWater(), kDeep + kFlat);
  Fiber([] {}).Join();
  EXPECT_GE(HighWater(), kDeep) << "it is the largest so far";
}

TEST(StackHighWater, WithoutRecordingThereIsNone) {
  RuntimeOf runtime(OptionsOf(Shape{1, 1}));
  Fiber([] { GoDeep(); }).Join();
  EXPECT_EQ(HighWater(), 0U);
}

TEST(StackHighWater, TheNextRuntimeBeginsAnew) {
  {
    RuntimeOf runtime(Recording(Shape{1, 1}, 1));
    Fiber([] { GoDeep(); }).Join();
  }
  RuntimeOf runtime(Recording(Shape{1, 1}, 1));
  EXPECT_EQ(HighWater(), 0U);
}

TEST(StackHighWater, OtherSizesAreNotRecorded) {
  RuntimeOf runtime(Recording(Shape{1, 1}, 1));
  Fiber(Fiber::Attributes{.stack_size = 65536}, [] { GoDeep(); }).Join();
  EXPECT_LT(HighWater(), kFlat);
}

// Many at once, which take stacks over from each other where they may, and are stolen.
TEST_P(StackHighWaterTest, FibersThatMoveAreRecordedToo) {
  RuntimeOf runtime(Recording(GetParam(), 3));
  std::vector<Fiber> fibers;
  for (int i = 0; i < 300; ++i) {
    fibers.emplace_back([] {
      FiberYield();
      GoDeep();
      FiberYield();
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_GE(HighWater(), kDeep);
  EXPECT_LT(HighWater(), kDeep + kFlat);
}

TEST(StackHighWater, OfALoop) {
  FiberLoop loop({.record_stack_every = 1});
  loop.AddTask([] {});
  loop.Run();
  EXPECT_GT(loop.StackHighWater(), 0U);
  EXPECT_LT(loop.StackHighWater(), kFlat);
  loop.AddTask([] { GoDeep(); });
  loop.Run();
  EXPECT_GE(loop.StackHighWater(), kDeep);

  FiberLoop silent;
  silent.AddTask([] { GoDeep(); });
  silent.Run();
  EXPECT_EQ(silent.StackHighWater(), 0U);
}

// Loops of the same sizes have one group, one after the other.
TEST(StackHighWater, ALoopHasNothingOfTheLoopBeforeIt) {
  constexpr std::size_t kOwnSize = 176 * 1024;  // No other loop of the process has had it.
  {
    FiberLoop silent({.stack_size = kOwnSize});
    silent.AddTask([] { GoDeep(); });
    silent.Run();
    EXPECT_EQ(silent.StackHighWater(), 0U);
  }
  {
    FiberLoop loop({.stack_size = kOwnSize, .record_stack_every = 1});
    loop.AddTask([] { GoDeep(); });
    loop.Run();
    EXPECT_GE(loop.StackHighWater(), kDeep);
  }
  {
    FiberLoop flat({.stack_size = kOwnSize, .record_stack_every = 1});
    EXPECT_EQ(flat.StackHighWater(), 0U);
    flat.AddTask([] {});
    flat.Run();
    EXPECT_GT(flat.StackHighWater(), 0U);
    EXPECT_LT(flat.StackHighWater(), kFlat);
  }
  FiberLoop silent({.stack_size = kOwnSize});
  EXPECT_EQ(silent.StackHighWater(), 0U);
  silent.AddTask([] { GoDeep(); });
  silent.Run();
  EXPECT_EQ(silent.StackHighWater(), 0U);
}

TEST(StackHighWater, ALoopThatHasEndedLeavesNoMemoryInStacks) {
  constexpr std::size_t kOwnSize = 144 * 1024;
  LoopGroup* const lent = LoopGroups::Borrow({.stack_size = kOwnSize});
  LoopGroups::GiveBack(lent);  // The next loop has it.
  context::StackPool* const pools[] = {&lent->group.stacks(), lent->group.StacksOfSize(2 * kOwnSize, 0)};
  {
    FiberLoop loop({.stack_size = kOwnSize});
    for (int i = 0; i < 10; ++i) {
      loop.AddTask([] { FiberYield(); });
      loop.AddTask({.stack_size = 2 * kOwnSize}, [&] {
        FiberYield();
        for (context::StackPool* pool : pools) EXPECT_GT(pool->statistics().in_use, 0U);
      });
    }
    loop.Run();
  }
  for (context::StackPool* pool : pools) {
    EXPECT_EQ(pool->statistics().in_use, 0U);
    EXPECT_EQ(pool->statistics().free_warm, 0U);
  }
}

// Each option of a group, but for what it records.
TEST(StackHighWater, ALoopIsLentAGroupOfItsSizesOnly) {
  const GroupOptions wanted{.stack_size = 112 * 1024, .guard_size = 32 * 1024};
  LoopGroup* const group = LoopGroups::Borrow(wanted);
  LoopGroups::GiveBack(group);
  for (auto change : {+[](GroupOptions* o) { o->stack_size *= 2; }, +[](GroupOptions* o) { o->guard_size *= 2; },
                      +[](GroupOptions* o) { o->guard_pages = false; }, +[](GroupOptions* o) { o->warm_stacks = 1; },
                      +[](GroupOptions* o) { o->max_ready_wait = std::chrono::seconds(1); }}) {
    GroupOptions other = wanted;
    change(&other);
    LoopGroup* const lent = LoopGroups::Borrow(other);
    EXPECT_NE(lent, group);
    LoopGroups::GiveBack(lent);
  }
  GroupOptions recording = wanted;
  recording.record_stack_every = 1;
  LoopGroup* const lent = LoopGroups::Borrow(recording);
  EXPECT_EQ(lent, group);
  LoopGroups::GiveBack(lent);
}

}  // namespace
}  // namespace weft::fiber
