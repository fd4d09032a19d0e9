// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kChunks = 5;

// All entities of so many chunks.
std::vector<FiberEntity*> TakeChunks(NodeArena& arena, std::size_t chunks) {
  std::vector<FiberEntity*> entities(chunks * kEntitiesPerChunk);
  for (std::size_t taken = 0; taken < entities.size();) {
    const std::size_t n = arena.Take(&entities[taken], std::min<std::size_t>(64, entities.size() - taken));
    if (n == 0) {
      ADD_FAILURE() << "no memory";
      break;
    }
    taken += n;
  }
  return entities;
}

TEST(EntityTrim, FewFreeEntitiesStayWarm) {
  NodeArena arena;
  const std::vector<FiberEntity*> entities = TakeChunks(arena, 1);
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk);
}

TEST(EntityTrim, OfWhollyFreeChunksOneStaysWarm) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk);
  // The others are used again before a new chunk is made.
  std::vector<FiberEntity*> again = TakeChunks(arena, kChunks);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, kChunks);
  std::sort(entities.begin(), entities.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, entities);
}

TEST(EntityTrim, WhatAnotherFiberUsesStaysAsItIs) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  FiberEntity* const used = entities[entities.size() / 2];
  int mark = 0;
  used->set_fiber_local_slots(&mark);
  std::erase(entities, used);
  for (FiberEntity* entity : entities) entity->next = entity;  // Written to, as by a fiber.
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(used->fiber_local_slots(), &mark);
  // Those beside it, and the chunk that stays warm.
  EXPECT_EQ(arena.TakeSnapshot().free, 2 * kEntitiesPerChunk - 1);
  used->set_fiber_local_slots(nullptr);
}

// EP1: their memory went back to the system.
TEST(EntityTrim, EntitiesOfAColdChunkReadAsNew) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  for (FiberEntity* entity : entities) entity->next = entity;
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  std::size_t as_new = 0;
  for (const FiberEntity* entity : entities) as_new += entity->next == nullptr ? 1 : 0;
  EXPECT_EQ(as_new, (kChunks - 1) * kEntitiesPerChunk);
}

}  // namespace
}  // namespace weft::scheduling_group
