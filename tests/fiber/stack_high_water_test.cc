// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// record_stack_every, of a runtime and of a FiberLoop: how deep fibers have gone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <vector>

#include "weft/base/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/runtime.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

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

Options Recording(Shape shape, int every) {
  Options options = OptionsOf(shape);
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

}  // namespace
}  // namespace weft::fiber
