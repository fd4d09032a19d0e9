// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>

namespace weft::context {
namespace {

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
