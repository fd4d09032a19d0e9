// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_arenas.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>

#include "weft/tests/context/faulty_memory.h"

namespace weft::context {
namespace {

using Growth = StackArenas::Growth;

constexpr std::size_t kStride = 16384 + 4096;

// Arenas of small stacks, the first with 64 slots.
class StackArenasTest : public ::testing::Test {
 protected:
  ~StackArenasTest() override { arenas_.UnmapAll(); }

  std::size_t size() const { return arenas_.size(std::memory_order_acquire); }
  void* TopOf(const StackArena& arena, std::size_t slot) { return layout_.TopOf(arena.region.low + slot * kStride); }

  FaultyMemory memory_;
  const StackLayout layout_{16384, 4096};
  StackArenas arenas_{&memory_, &layout_, /*node=*/-1, /*first_arena_size=*/64 * kStride, /*max_slots=*/1 << 20};
};

TEST_F(StackArenasTest, EachArenaIsTwiceAsLargeAsTheOneBefore) {
  for (const std::size_t slots : {64, 128, 256}) {
    StackArena* arena = nullptr;
    ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
    EXPECT_EQ(arena->slots, slots);
    EXPECT_EQ(arena->region.high - arena->region.low, static_cast<std::ptrdiff_t>(slots * kStride));
    EXPECT_EQ(arena, &arenas_[size() - 1]);
  }
  EXPECT_EQ(size(), 3u);
}

TEST_F(StackArenasTest, AStackIsFoundInItsArenaAndSlot) {
  StackArena* arenas[2];
  for (StackArena*& arena : arenas) ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  for (StackArena* arena : arenas) {
    for (const std::size_t slot : {std::size_t{0}, std::size_t{1}, arena->slots - 1}) {
      EXPECT_EQ(&arenas_.Of(TopOf(*arena, slot)), arena);
      EXPECT_EQ(arena->SlotOf(TopOf(*arena, slot)), slot);
    }
  }
}

TEST_F(StackArenasTest, AllSlotsOfANewArenaAreBareAndThenCold) {
  arenas_.LimitSlots(40);  // Not a whole word.
  StackArena* arena = nullptr;
  ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  EXPECT_EQ(arena->slots, 40u);
  EXPECT_EQ(arena->cold.size(), 0u);
  for (std::size_t slot = 0; slot < 40; ++slot) EXPECT_FALSE(arena->guarded.Contains(slot));
  arena->MakeAllCold();
  EXPECT_EQ(arena->cold.size(), 40u);
  for (std::size_t slot = 0; slot < 40; ++slot) EXPECT_EQ(arena->cold.PopLowest(), slot);
}

TEST_F(StackArenasTest, ThereAreNoMoreSlotsThanAllowed) {
  arenas_.LimitSlots(100);
  StackArena* arena = nullptr;
  ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  EXPECT_EQ(arena->slots, 64u);
  ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  EXPECT_EQ(arena->slots, 36u);
  EXPECT_EQ(arenas_.Add(&arena), Growth::kMostStacks);
  EXPECT_EQ(size(), 2u);
}

TEST_F(StackArenasTest, WhereAddressSpaceIsShortAnArenaIsSmaller) {
  memory_.largest_map = 40 * kStride;
  StackArena* arena = nullptr;
  ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  EXPECT_EQ(arena->slots, 32u);
  memory_.largest_map = 0;
  EXPECT_EQ(arenas_.Add(&arena), Growth::kNoAddressSpace);
  EXPECT_EQ(size(), 1u);
}

TEST_F(StackArenasTest, ItsStacksAreKnownToTheRegistryUntilItIsUnmapped) {
  StackArena* arena = nullptr;
  ASSERT_EQ(arenas_.Add(&arena), Growth::kDone);
  StackBounds bounds;
  ASSERT_TRUE(FindStack(arena->region.low, &bounds));
  EXPECT_EQ(bounds.low, arena->region.low + 4096);
  const char* const low = arena->region.low;
  {
    StackArenas others(&memory_, &layout_, /*node=*/-1, kStride, /*max_slots=*/1);
    ASSERT_EQ(others.Add(&arena), Growth::kDone);
    const char* const other_low = arena->region.low;
    EXPECT_TRUE(FindStack(other_low, &bounds));
    others.UnmapAll();
    EXPECT_FALSE(FindStack(other_low, &bounds));
  }
  EXPECT_TRUE(FindStack(low, &bounds));
}

using StackArenasDeathTest = StackArenasTest;

TEST_F(StackArenasDeathTest, AnAddressOfNoStackEndsTheProcess) {
  int local = 0;
  EXPECT_DEATH((void)arenas_.Of(&local), "is not a stack of this pool");
}

}  // namespace
}  // namespace weft::context
