// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_guards.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <span>

#include "weft/tests/context/faulty_memory.h"

namespace weft::context {
namespace {

constexpr std::size_t kStacks = 64;  // a word of the sets

// 64 bare stacks of an arena.
struct Stacks {
  explicit Stacks(bool wanted = true) : guards(&memory, &layout, &arenas, wanted) {
    memory.has_guards = false;
    if (arenas.Add(&arena) != StackArenas::Growth::kDone || arena->slots != kStacks) std::abort();
    for (std::size_t slot = 0; slot < kStacks; ++slot) {
      tops[slot] = layout.TopOf(arena->region.low + slot * layout.stride());
    }
  }
  ~Stacks() {
    arenas.UnmapAll();
    guards.ForgetAll();
  }

  void Install(std::size_t first, std::size_t n) {
    for (std::size_t slot = first; slot < first + n; ++slot) arena->guarded.Add(slot);
    guards.Install(tops + first, n);
  }
  // The byte below the stack.
  char& Below(std::size_t slot) { return static_cast<char*>(layout.WholeStack(tops[slot]).iov_base)[-1]; }

  FaultyMemory memory;
  StackLayout layout{16384, 4096};
  StackArenas arenas{&memory, &layout, /*node=*/-1, kStacks* layout.stride(), kStacks};
  StackGuards guards;
  StackArena* arena = nullptr;
  void* tops[kStacks];
};

TEST(StackGuards, AKernelWithGuardRegionsIsAskedOnce) {
  struct Counting : FaultyMemory {
    int calls = 0;
    bool InstallGuards(std::span<const Range> ranges) override {
      EXPECT_EQ(ranges.size(), 8u);
      ++calls;
      return true;
    }
  } memory;
  const StackLayout layout(16384, 4096);
  StackArenas arenas(&memory, &layout, /*node=*/-1, kStacks * layout.stride(), kStacks);
  StackGuards guards(&memory, &layout, &arenas, /*wanted=*/true);
  StackArena* arena = nullptr;
  ASSERT_EQ(arenas.Add(&arena), StackArenas::Growth::kDone);
  void* tops[8];
  for (std::size_t slot = 0; slot < 8; ++slot) tops[slot] = layout.TopOf(arena->region.low + slot * layout.stride());
  guards.Install(tops, 8);
  EXPECT_EQ(memory.calls, 1);
  EXPECT_EQ(guards.by_madvise(), 8u);
  EXPECT_EQ(guards.by_mprotect(), 0u);
  EXPECT_EQ(guards.unguarded(), 0u);
  arenas.UnmapAll();
}

TEST(StackGuards, WithoutGuardRegionsEachStackIsProtected) {
  Stacks stacks;
  stacks.Install(0, 8);
  EXPECT_EQ(stacks.guards.by_mprotect(), 8u);
  EXPECT_EQ(stacks.guards.unguarded(), 0u);
  for (std::size_t slot = 0; slot < 8; ++slot) {
    EXPECT_TRUE(stacks.arena->mprotected.Contains(slot));
    EXPECT_FALSE(stacks.arena->canary.Contains(slot));
  }
}

TEST(StackGuards, WhatCannotBeProtectedGetsACanaryAndSoDoAllThatFollow) {
  Stacks stacks;
  stacks.memory.protects_left = 3;
  stacks.Install(0, 8);
  EXPECT_EQ(stacks.guards.by_mprotect(), 3u);
  EXPECT_EQ(stacks.guards.unguarded(), 5u);
  for (std::size_t slot = 0; slot < 8; ++slot) EXPECT_EQ(stacks.arena->canary.Contains(slot), slot >= 3);
  stacks.memory.protects_left = 100;
  stacks.Install(8, 8);
  EXPECT_EQ(stacks.guards.by_mprotect(), 3u);
  EXPECT_EQ(stacks.guards.unguarded(), 13u);
}

TEST(StackGuards, WithoutGuardsWantedNothingIsCheckedEither) {
  Stacks stacks(/*wanted=*/false);
  stacks.Install(0, 8);
  EXPECT_EQ(stacks.guards.unguarded(), 8u);
  stacks.Below(0) = 1;
  stacks.guards.CheckCanary(stacks.tops[0]);
}

// A slot that becomes bare gives back the mapping that its guard took.
TEST(StackGuards, ForgottenGuardsAreCountedNoMore) {
  Stacks stacks;
  stacks.memory.protects_left = 40;
  stacks.Install(0, 32);
  stacks.Install(32, 32);
  EXPECT_EQ(stacks.guards.by_mprotect(), 40u);
  EXPECT_EQ(stacks.guards.unguarded(), 24u);
  stacks.guards.Forget(*stacks.arena, 0, 1);
  EXPECT_EQ(stacks.guards.by_madvise(), 0u);
  EXPECT_EQ(stacks.guards.by_mprotect(), 0u);
  EXPECT_EQ(stacks.guards.unguarded(), 0u);
  EXPECT_EQ(stacks.arena->mprotected.Word(0), 0u);
  EXPECT_EQ(stacks.arena->canary.Word(0), 0u);
}

using StackGuardsDeathTest = ::testing::Test;

TEST(StackGuardsDeathTest, AWriteBelowAStackWithACanaryIsFound) {
  Stacks stacks;
  stacks.memory.protects_left = 0;
  stacks.Install(0, 2);
  stacks.guards.CheckCanary(stacks.tops[0]);
  stacks.Below(0) = 1;
  EXPECT_DEATH(stacks.guards.CheckCanary(stacks.tops[0]), "without guard page was written to below its end");
  stacks.guards.CheckCanary(stacks.tops[1]);
}

}  // namespace
}  // namespace weft::context
