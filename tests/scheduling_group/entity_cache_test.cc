// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/entity_cache.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

namespace weft::scheduling_group {
namespace {

TEST(EntityCache, EachThreadHasACacheOfItsOwn) {
  EntityCache* const ours = LocalEntityCache();
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(LocalEntityCache(), ours);
  std::thread([&] { EXPECT_NE(LocalEntityCache(), ours); }).join();
}

TEST(EntityCache, EachArenaHasAMagazineOfItsOwn) {
  EntityCache* const cache = LocalEntityCache();
  EntityMagazine* const anywhere = cache->MagazineOf(kAnyNodeArena);
  EntityMagazine* const there = cache->MagazineOf(NodeArenaOn(3000));
  EXPECT_NE(anywhere, there);
  EXPECT_EQ(cache->MagazineOf(NodeArenaOn(3000)), there);
  EXPECT_EQ(cache->MagazineOf(kAnyNodeArena), anywhere);
}

TEST(EntityCache, AMagazineIsFilledAndFlushedByHalves) {
  const NodeArenaIndex arena = NodeArenaOn(3001);
  EntityMagazine magazine;
  ASSERT_TRUE(magazine.Fill(arena));
  ASSERT_EQ(magazine.count, EntityMagazine::kExchange);
  // The upper half is used more recently.
  ASSERT_EQ(NodeArenaAt(arena).Take(magazine.free + magazine.count, EntityMagazine::kExchange),
            EntityMagazine::kExchange);
  magazine.count = EntityMagazine::kCapacity;
  const std::vector<FiberEntity*> before(magazine.free, magazine.free + EntityMagazine::kCapacity);
  magazine.Flush(arena);
  ASSERT_EQ(magazine.count, EntityMagazine::kCapacity - EntityMagazine::kExchange);
  for (std::size_t i = 0; i < magazine.count; ++i) {
    EXPECT_EQ(magazine.free[i], before[EntityMagazine::kExchange + i]);
  }
  NodeArenaAt(arena).GiveBack(magazine.free, magazine.count);
  EXPECT_EQ(NodeArenaAt(arena).TakeSnapshot().free, kEntitiesPerChunk);
}

TEST(EntityCache, AThreadThatEndsGivesItsEntitiesBack) {
  const NodeArenaIndex arena = NodeArenaOn(3002);
  std::thread([&] {
    ASSERT_TRUE(LocalEntityCache()->MagazineOf(arena)->Fill(arena));
    EXPECT_EQ(NodeArenaAt(arena).TakeSnapshot().free, kEntitiesPerChunk - EntityMagazine::kExchange);
  }).join();
  EXPECT_EQ(NodeArenaAt(arena).TakeSnapshot().free, kEntitiesPerChunk);
}

TEST(EntityCache, IdsOfAllThreadsAreUniqueAndNeverZero) {
  constexpr std::size_t kIds = 5000;  // More than a thread gets at a time.
  std::vector<std::uint64_t> ids(2 * kIds);
  const auto take = [&](std::size_t begin) {
    for (std::size_t i = begin; i < begin + kIds; ++i) ids[i] = LocalEntityCache()->NextFiberId();
  };
  std::thread(take, 0).join();
  take(kIds);
  const std::set<std::uint64_t> different(ids.begin(), ids.end());
  EXPECT_EQ(different.size(), ids.size());
  EXPECT_FALSE(different.contains(0));
}

TEST(EntityCache, TheCountsOfAThreadThatEndedStay) {
  const std::size_t live = CountLiveFibers();
  std::thread([] {
    for (int i = 0; i < 3; ++i) LocalEntityCache()->CountTaken();
    LocalEntityCache()->CountGivenBack();
  }).join();
  EXPECT_EQ(CountLiveFibers(), live + 2);
  LocalEntityCache()->CountGivenBack();
  CountGivenBackWithoutCache();
  EXPECT_EQ(CountLiveFibers(), live);
}

}  // namespace
}  // namespace weft::scheduling_group
