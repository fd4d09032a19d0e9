// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_arenas.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>

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

TEST(SlotBitmap, KnowsWhatWasAdded) {
  std::array<std::uint64_t, 2> words = {};
  SlotBitmap bitmap(words.data());
  bitmap.Add(0);
  bitmap.Add(63);
  bitmap.Add(64);
  EXPECT_TRUE(bitmap.Contains(0));
  EXPECT_FALSE(bitmap.Contains(1));
  EXPECT_TRUE(bitmap.Contains(63));
  EXPECT_TRUE(bitmap.Contains(64));
  EXPECT_EQ(bitmap.Word(0), (std::uint64_t{1} << 63) | 1);
  bitmap.SetWord(0, 0);
  EXPECT_FALSE(bitmap.Contains(63));
}

TEST(SlotBitmap, TakesAWordForSixtyFourSlots) {
  EXPECT_EQ(SlotBitmap::BytesFor(1), 8u);
  EXPECT_EQ(SlotBitmap::BytesFor(64), 8u);
  EXPECT_EQ(SlotBitmap::BytesFor(65), 16u);
}

TEST(SlotSet, GivesTheLowestFirst) {
  std::array<std::uint64_t, 4> words = {};
  SlotSet set(words.data());
  for (const std::size_t slot : {200, 70, 69, 3}) set.Add(slot);
  EXPECT_EQ(set.size(), 4u);
  EXPECT_EQ(set.PopLowest(), 3u);
  EXPECT_EQ(set.PopLowest(), 69u);
  set.Add(5);
  EXPECT_EQ(set.PopLowest(), 5u);
  EXPECT_EQ(set.PopLowest(), 70u);
  EXPECT_EQ(set.PopLowest(), 200u);
  EXPECT_EQ(set.size(), 0u);
}

TEST(SlotSet, MovesWholeWords) {
  std::array<std::uint64_t, 3> words = {};
  SlotSet set(words.data());
  set.AddFull(1);
  set.AddFull(2);
  EXPECT_EQ(set.size(), 128u);
  EXPECT_FALSE(set.IsFull(0));
  EXPECT_TRUE(set.IsFull(1));
  set.RemoveFull(1);
  EXPECT_EQ(set.PopLowest(), 128u);
  EXPECT_FALSE(set.IsFull(2));
  set.AddFull(1);
  EXPECT_EQ(set.PopLowest(), 64u);
  EXPECT_EQ(set.size(), 126u);
}

constexpr std::size_t kPage = 4096;

// Where slot `number` would begin.
char* SlotLow(const StackLayout& layout, std::size_t number) {
  return reinterpret_cast<char*>(number * layout.stride());
}

TEST(StackLayout, SizesAreRoundedUpToPages) {
  const StackLayout layout(10'000, 5'000);
  EXPECT_EQ(layout.stack_size(), 3 * kPage);
  EXPECT_EQ(layout.guard_size(), 2 * kPage);
  EXPECT_EQ(layout.stride(), 5 * kPage);
}

TEST(StackLayout, AGuardHasAPageAtLeast) { EXPECT_EQ(StackLayout(2 * kPage, 0).guard_size(), kPage); }

TEST(StackLayout, ASlotHasAnOddNumberOfPages) {
  for (std::size_t stack = 1; stack < 6; ++stack) {
    for (std::size_t guard = 1; guard < 6; ++guard) {
      const StackLayout layout(stack * kPage, guard * kPage);
      EXPECT_EQ(layout.stride() / kPage % 2, 1u);
      EXPECT_EQ(layout.stack_size(), stack * kPage);
      EXPECT_EQ(layout.guard_size(), (guard + (stack + guard + 1) % 2) * kPage);
    }
  }
}

TEST(StackLayout, NeighboursHaveDifferentColours) {
  const StackLayout layout(4 * kPage, kPage);
  std::set<std::uintptr_t> offsets;
  for (std::size_t slot = 100; slot < 116; ++slot) {
    const auto top = reinterpret_cast<std::uintptr_t>(layout.TopOf(SlotLow(layout, slot)));
    EXPECT_EQ(top % 16, 0u);
    EXPECT_TRUE(offsets.insert(top % kPage).second) << slot;
  }
}

TEST(StackLayout, AStackLiesAboveItsGuardAndEndsWithItsSlot) {
  const StackLayout layout(5 * kPage, 2 * kPage);
  for (std::size_t slot = 100; slot < 140; ++slot) {
    char* const low = SlotLow(layout, slot);
    const char* const end = low + layout.stride();
    const void* const top = layout.TopOf(low);
    const StackMemory::Range guard = layout.GuardOf(top);
    const StackMemory::Range stack = layout.WholeStack(top);
    EXPECT_EQ(guard.iov_base, low);
    EXPECT_EQ(guard.iov_len, 2 * kPage);
    EXPECT_EQ(stack.iov_base, low + 2 * kPage);
    EXPECT_EQ(static_cast<char*>(stack.iov_base) + stack.iov_len, end);
    EXPECT_LE(top, end);
    EXPECT_GE(static_cast<const char*>(top) - layout.usable_size(), stack.iov_base);
  }
}

}  // namespace
}  // namespace weft::context
