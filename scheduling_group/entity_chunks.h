// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Entity chunks: the memory of all fibers' control blocks, in pieces of 256 KiB that are never unmapped.
//
// A global table lists the chunks for ever, so that a debugger finds every fiber by walking it, even in a core dump.
// Zeroes are a free entity (EP1 in entity_pool.h). Any thread.
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_CHUNKS_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_CHUNKS_H_

#include <cstddef>

#include "weft/scheduling_group/entity_stack.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::scheduling_group {

inline constexpr std::size_t kEntityChunkBytes = 256 * 1024;
inline constexpr std::size_t kEntitiesPerChunk = kEntityChunkBytes / sizeof(FiberEntity);

// The record of a chunk, which lies behind its entities. Never freed.
struct EntityChunk {
  explicit EntityChunk(FiberEntity* chunk) : entities(chunk) {}

  EntityStack<kEntitiesPerChunk>::Block block;  // as many pointers as it has entities
  FiberEntity* const entities;
  EntityChunk* next = nullptr;       // of the arena; set before it is in the list
  EntityChunk* next_cold = nullptr;  // under the arena's lock
};

// A new chunk on `node` (-1: any), entered into the table; nullptr: no memory, or no room in the table. Not to be
// called under a lock: it makes system calls and touches new memory.
EntityChunk* MakeEntityChunk(int node);

// The table: how many chunks there are, and the entities of each.
std::size_t EntityChunkCount();
FiberEntity* EntityChunkAt(std::size_t index);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_CHUNKS_H_
