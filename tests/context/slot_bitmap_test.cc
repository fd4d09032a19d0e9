// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/slot_bitmap.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace weft::context {
namespace {

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

}  // namespace
}  // namespace weft::context
