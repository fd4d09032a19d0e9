// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/node_arena.h"

#include <utility>

namespace weft::scheduling_group {
namespace {

// Never destroyed, since threads may end after static destructors.
constinit NodeArena arenas[kMaxNodeArenas];
constinit base::SpinLock arenas_lock;
constinit std::size_t arena_count WEFT_GUARDED_BY(arenas_lock) = 1;

}  // namespace

void NodeArena::AddEntities(const EntityChunk& chunk) {
  for (std::size_t i = kEntitiesPerChunk; i-- > 0;) {
    FiberEntity* entity = &chunk.entities[i];
    free_.Push(&entity, 1);
  }
}

std::size_t NodeArena::TakeFree(FiberEntity** entities, std::size_t n) {
  if (free_.size() < n && cold_chunks_ != nullptr) {
    EntityChunk* chunk = std::exchange(cold_chunks_, cold_chunks_->next_cold);
    AddEntities(*chunk);
  }
  return free_.Pop(entities, n);
}

std::size_t NodeArena::Take(FiberEntity** entities, std::size_t n) {
  {
    base::SpinLockGuard guard(lock_);
    if (const std::size_t taken = TakeFree(entities, n); taken != 0) return taken;
  }
  EntityChunk* chunk = MakeEntityChunk(node());
  base::SpinLockGuard guard(lock_);
  if (chunk != nullptr) {
    chunk->next = std::exchange(chunks_, chunk);
    ++chunk_count_;
    free_.AddBlock(&chunk->block);
    AddEntities(*chunk);
  }
  return TakeFree(entities, n);
}

void NodeArena::GiveBack(FiberEntity* const* entities, std::size_t n) {
  base::SpinLockGuard guard(lock_);
  free_.Push(entities, n);
}

NodeArena::Snapshot NodeArena::TakeSnapshot() {
  base::SpinLockGuard guard(lock_);
  return {.free = free_.size(), .chunk_count = chunk_count_, .chunks = chunks_};
}

std::size_t NodeArena::TakeOfSnapshot(const Snapshot& snapshot, FiberEntity** entities, std::size_t n) {
  base::SpinLockGuard guard(lock_);
  if (chunk_count_ != snapshot.chunk_count) return 0;
  return free_.Pop(entities, n);
}

void NodeArena::AddColdChunk(EntityChunk* chunk) {
  base::SpinLockGuard guard(lock_);
  chunk->next_cold = std::exchange(cold_chunks_, chunk);
}

NodeArena& NodeArenaAt(NodeArenaIndex index) { return arenas[index]; }

NodeArenaIndex NodeArenaOn(int node) {
  if (node < 0) return kAnyNodeArena;
  base::SpinLockGuard guard(arenas_lock);
  for (std::size_t index = 1; index < arena_count; ++index) {
    if (arenas[index].node() == node) return static_cast<NodeArenaIndex>(index);
  }
  if (arena_count == kMaxNodeArenas) return kAnyNodeArena;
  arenas[arena_count].set_node(node);
  return static_cast<NodeArenaIndex>(arena_count++);
}

}  // namespace weft::scheduling_group
