// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// NodeArena: the free entities of one NUMA node that all threads share: a central stack, and its chunks.
//
// Threads exchange batches with it (entity_cache.h), so they take its lock seldom. After a burst TrimArena()
// (entity_trim.h) makes wholly free chunks cold: they leave the stack, and are used before a new one is made.
//
// Invariants
//   NA1  A free entity of the arena is in exactly one place: the stack, a cold chunk or a thread (EP2).
//   NA2  The stack and the cold chunks hold entities of the arena's own chunks only (EP4).
// Any thread. The lock is a leaf: under it only pointers move, and no memory is mapped.
#ifndef WEFT_SCHEDULING_GROUP_NODE_ARENA_H_
#define WEFT_SCHEDULING_GROUP_NODE_ARENA_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/base/spin_lock.h"
#include "weft/base/thread_annotations.h"
#include "weft/scheduling_group/entity_chunks.h"
#include "weft/scheduling_group/entity_stack.h"

namespace weft::scheduling_group {

class alignas(base::kCacheLineSize) NodeArena {
 public:
  constexpr NodeArena() = default;
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // The NUMA node of its chunks; -1: any. Set before another thread uses the arena.
  int node() const { return node_plus_one_ - 1; }
  void set_node(int node) { node_plus_one_ = node + 1; }

  // Takes up to `n` entities from the stack, a cold chunk or a new chunk. Returns how many; 0: there is no memory.
  std::size_t Take(FiberEntity** entities, std::size_t n) WEFT_EXCLUDES(lock_);
  // The last one comes on top. Needs no memory.
  void GiveBack(FiberEntity* const* entities, std::size_t n) WEFT_EXCLUDES(lock_);

  // --- For TrimArena() ---
  struct Snapshot {
    std::size_t free = 0;  // entities in the stack
    std::size_t chunk_count = 0;
    EntityChunk* chunks = nullptr;  // linked by `next`
  };
  Snapshot TakeSnapshot() WEFT_EXCLUDES(lock_);
  // Takes up to `n` from the top of the stack, or none if a chunk came after the snapshot. Returns how many.
  std::size_t TakeOfSnapshot(const Snapshot& snapshot, FiberEntity** entities, std::size_t n) WEFT_EXCLUDES(lock_);
  // The caller holds all entities of the chunk; they go back with it.
  void AddColdChunk(EntityChunk* chunk) WEFT_EXCLUDES(lock_);

 private:
  void AddEntities(const EntityChunk& chunk) WEFT_REQUIRES(lock_);
  std::size_t TakeFree(FiberEntity** entities, std::size_t n) WEFT_REQUIRES(lock_);

  base::SpinLock lock_;
  EntityStack<kEntitiesPerChunk> free_ WEFT_GUARDED_BY(lock_);
  EntityChunk* cold_chunks_ WEFT_GUARDED_BY(lock_) = nullptr;  // wholly free, pages given back
  EntityChunk* chunks_ WEFT_GUARDED_BY(lock_) = nullptr;       // all of the arena
  std::size_t chunk_count_ WEFT_GUARDED_BY(lock_) = 0;
  int node_plus_one_ = 0;  // All zeroes: the array of arenas takes no room in the program file.
};

// All arenas, by a small number. Number 0 belongs to no node.
using NodeArenaIndex = std::uint8_t;
inline constexpr NodeArenaIndex kAnyNodeArena = 0;
inline constexpr std::size_t kMaxNodeArenas = 64;

NodeArena& NodeArenaAt(NodeArenaIndex index);
// The arena on a NUMA node, always the same. Node -1, and any after kMaxNodeArenas - 1 nodes: kAnyNodeArena.
NodeArenaIndex NodeArenaOn(int node);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_NODE_ARENA_H_
