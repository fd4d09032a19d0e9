// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/node_arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <set>
#include <vector>

namespace weft::scheduling_group {
namespace {

std::vector<FiberEntity*> Take(NodeArena& arena, std::size_t n) {
  std::vector<FiberEntity*> entities(n);
  entities.resize(arena.Take(entities.data(), n));
  return entities;
}

// All of the arena's, batch by batch; it makes no chunk for them.
std::vector<FiberEntity*> TakeAllFree(NodeArena& arena) {
  std::vector<FiberEntity*> entities(arena.TakeSnapshot().free);
  EXPECT_EQ(arena.Take(entities.data(), entities.size()), entities.size());
  return entities;
}

TEST(NodeArena, TheFirstTakeMakesAChunk) {
  NodeArena arena;
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 0u);
  const std::vector<FiberEntity*> entities = Take(arena, 64);
  ASSERT_EQ(entities.size(), 64u);
  EXPECT_EQ(std::set<FiberEntity*>(entities.begin(), entities.end()).size(), 64u);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 1u);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk - 64);
}

TEST(NodeArena, TheMostRecentlyReturnedEntityIsTakenFirst) {
  NodeArena arena;
  const std::vector<FiberEntity*> entities = Take(arena, 64);
  arena.GiveBack(entities.data(), entities.size());
  EXPECT_EQ(Take(arena, 1).at(0), entities.back());
}

TEST(NodeArena, AnEmptyArenaMakesAnotherChunk) {
  NodeArena arena;
  (void)Take(arena, 1);
  (void)TakeAllFree(arena);
  EXPECT_EQ(Take(arena, 1).size(), 1u);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 2u);
}

TEST(NodeArena, AColdChunkIsUsedBeforeANewOneIsMade) {
  NodeArena arena;
  (void)Take(arena, 1);
  (void)TakeAllFree(arena);
  EntityChunk* chunk = arena.TakeSnapshot().chunks;
  arena.AddColdChunk(chunk);  // All of its entities were in our hands.
  EXPECT_EQ(arena.TakeSnapshot().free, 0u);
  for (const FiberEntity* entity : Take(arena, 64)) {
    EXPECT_GE(entity, chunk->entities);
    EXPECT_LT(entity, chunk->entities + kEntitiesPerChunk);
  }
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 1u);
}

TEST(NodeArena, NothingIsTakenOfASnapshotWhenAChunkHasComeSince) {
  NodeArena arena;
  (void)Take(arena, 1);
  const NodeArena::Snapshot snapshot = arena.TakeSnapshot();
  FiberEntity* entity = nullptr;
  EXPECT_EQ(arena.TakeOfSnapshot(snapshot, &entity, 1), 1u);
  (void)TakeAllFree(arena);
  (void)Take(arena, 1);
  EXPECT_EQ(arena.TakeOfSnapshot(snapshot, &entity, 1), 0u);
}

TEST(NodeArena, ANodeHasOneArena) {
  const NodeArenaIndex one = NodeArenaOn(1001);
  const NodeArenaIndex other = NodeArenaOn(1002);
  EXPECT_NE(one, other);
  EXPECT_EQ(NodeArenaOn(1001), one);
  EXPECT_EQ(NodeArenaAt(one).node(), 1001);
  EXPECT_EQ(NodeArenaOn(-1), kAnyNodeArena);
  EXPECT_EQ(NodeArenaAt(kAnyNodeArena).node(), -1);
}

}  // namespace
}  // namespace weft::scheduling_group
