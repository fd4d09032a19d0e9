// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstddef>

#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {
namespace {

TEST(EntityChunks, ANewChunkIsInTheTable) {
  const std::size_t before = EntityChunkCount();
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/-1);
  ASSERT_NE(chunk, nullptr);
  ASSERT_EQ(EntityChunkCount(), before + 1);
  EXPECT_EQ(EntityChunkAt(before), chunk->entities);
}

// EP1.
TEST(EntityChunks, ItsEntitiesAreFree) {
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/-1);
  ASSERT_NE(chunk, nullptr);
  for (std::size_t i = 0; i < kEntitiesPerChunk; ++i) {
    const FiberEntity& entity = chunk->entities[i];
    ASSERT_EQ(entity.state().Load(), FiberPhase::kDead);
    ASSERT_EQ(entity.id(), 0u);
    ASSERT_STREQ(entity.name(), "");
  }
}

// Better elsewhere than not at all; a line in the log says so.
TEST(EntityChunks, AChunkOfANodeThatIsNotThereLiesElsewhere) {
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/1000);
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(chunk->entities[0].id(), 0u);
}

}  // namespace
}  // namespace weft::scheduling_group
