// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EntityPool: allocates the control blocks of fibers, and is the registry of all fibers.
//
// Entities lie in chunks that are never unmapped. So a pointer to an entity is always readable, and a fiber that starts
// enters no list. Free entities lie in per-thread caches (entity_cache.h) and in a central stack that exchanges half a
// cache at a time under a SpinLock (node_arena.h). After a burst Trim() gives wholly free chunks and pages back to the
// OS.
//
// Take() returns nullptr if there is no memory for the caller's cache or a chunk, or if the table is full. GiveBack()
// needs no memory: a chunk brings the room for its entities in the central stack, and a thread without a cache gives
// back to that stack. Nothing is allocated under a lock.
//
// The pool has an arena, with its own central stack and chunks, for each NUMA node that groups are on. An entity comes
// from the arena of its fiber's group and goes back there wherever the fiber ends. One node: one arena, kAnywhere.
//
// Invariants
//   EP1  A free entity has phase kDead and null cold fields (kHasColdFields); its id is its last fiber's, or 0.
//   EP2  An entity is in exactly one place: held by a thread, in a cache, in the central stack or in a cold chunk.
//   EP3  LiveFibers() == 0 is exact: it reads the threads' counts of entities given back before those of entities
//        taken, and both only grow.
//   EP4  A cache, central stack or cold chunk of an arena holds entities of that arena only. So Take(arena) always
//        returns one on the arena's node, whichever threads have used it before.
// All functions: any thread.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_
#define WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_

#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {

class EntityPool {
 public:
  using Arena = NodeArenaIndex;
  static constexpr Arena kAnywhere = kAnyNodeArena;
  static constexpr std::size_t kMaxArenas = kMaxNodeArenas;

  // The arena on a NUMA node (-1: kAnywhere); the same for the same node. After kMaxArenas - 1 nodes: kAnywhere.
  static Arena ArenaOn(int node);

  static FiberEntity* Take(Arena arena);              // with a new id; nullptr: memory or table exhausted
  static void GiveBack(FiberEntity* fiber) noexcept;  // kDead, cold fields null
  static std::size_t LiveFibers();                    // taken and not given back

  // Gives the memory of wholly free chunks and pages back, if there is memory to work with. Returns 0: no more to trim.
  static std::size_t Trim() noexcept;

  // Calls visit(entity) for each entity that was ever made, in any phase. A snapshot: fibers come and go meanwhile.
  template <class Visit>
  static void ForEach(Visit visit) {
    const std::size_t chunks = EntityChunkCount();
    for (std::size_t c = 0; c < chunks; ++c) {
      FiberEntity* chunk = EntityChunkAt(c);
      for (std::size_t i = 0; i < kEntitiesPerChunk; ++i) visit(&chunk[i]);
    }
  }

  static constexpr std::size_t kChunkBytes = kEntityChunkBytes;
  static constexpr std::size_t kEntitiesPerChunk = scheduling_group::kEntitiesPerChunk;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_
