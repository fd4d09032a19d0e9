// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/start/local_slot.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace weft::fiber {
namespace {

TEST(LocalSlotRegistry, IndicesAreDenseAndUsedAgainLowestFirst) {
  LocalSlotRegistry registry;
  std::vector<LocalSlot> slots;
  for (std::uint32_t i = 0; i < 5; ++i) {
    slots.push_back(registry.Acquire());
    EXPECT_EQ(slots.back().index, i);
  }
  registry.Release(slots[3]);
  registry.Release(slots[1]);
  EXPECT_EQ(registry.Acquire().index, 1U);
  EXPECT_EQ(registry.Acquire().index, 3U);
  EXPECT_EQ(registry.Acquire().index, 5U);
}

TEST(LocalSlotRegistry, SerialsAreNeverUsedTwiceAndNeverZero) {
  LocalSlotRegistry registry;
  std::set<std::uint64_t> serials;
  for (int i = 0; i < 100; ++i) {
    const LocalSlot slot = registry.Acquire();
    EXPECT_NE(slot.serial, 0U);
    EXPECT_TRUE(serials.insert(slot.serial).second);
    registry.Release(slot);
  }
}

TEST(LocalSlotRegistry, ThreadsNeverGetTheSameIndex) {
  LocalSlotRegistry registry;
  constexpr int kThreads = 4;
  constexpr int kSlots = 1000;
  std::vector<std::vector<LocalSlot>> taken(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&registry, &mine = taken[t]] {
      for (int i = 0; i < kSlots; ++i) {
        mine.push_back(registry.Acquire());
        if (i % 3 == 0) {
          registry.Release(mine.back());
          mine.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::uint32_t> indices;
  for (const auto& slots : taken) {
    for (const LocalSlot slot : slots) EXPECT_TRUE(indices.insert(slot.index).second);
  }
}

}  // namespace
}  // namespace weft::fiber
