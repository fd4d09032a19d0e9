// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// EntityPool: where fibers' control blocks come from, and the registry of all fibers.
//
// Entities lie in chunks (entity_chunks.h), which are never unmapped: a pointer to an entity is always readable, a
// debugger or a core dump finds every fiber by walking their table, and no fiber needs to be entered into a list when
// it starts. Free entities lie in per-thread caches (entity_cache.h: arrays of pointers; nothing is written into a free
// entity) and in a central stack that exchanges half a cache at a time under a SpinLock (node_arena.h). After a burst
// Trim() gives the chunks and pages that are wholly free back to the OS (entity_trim.h).
//
// Where memory is exhausted, Take() says nullptr: of the caller's own cache, of a chunk, or because the table is full.
// GiveBack() needs no memory: a chunk brings the room for its entities in the central stack, and a thread that has no
// cache and gets none gives back to that stack. Nothing is allocated under a lock.
//
// The pool has arenas, one for each NUMA node that groups are on, with a central stack and chunks of its own, and each
// thread has a cache for each arena it has met. A fiber's entity comes from the arena of its group and goes back there
// wherever the fiber ends: the cache for that arena is the thread's, so entities that end far from their arena travel
// back half a cache at a time. On a machine with one node there is one arena, kAnywhere, and nothing of this is to be
// noticed.
//
// It also counts: each thread counts the entities it took and gave back; LiveFibers() adds them up.
//
// Invariants
//   EP1  A free entity has phase kDead and null cold fields; its id is that of its last fiber, or 0.
//   EP2  An entity is in one thread's hands, in one cache, in the central stack or in a cold chunk: exactly one.
//   EP3  LiveFibers() == 0 is exact: what was given back is read before what was taken, and both only grow.
//   EP4  A cache, central stack or cold chunk of an arena holds entities of that arena only: what Take(arena) returns
//        lies on the arena's node, after any number of uses, by whomever.
//
// All functions: any thread.
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_

#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/entity_chunks.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/node_arena.h"

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

  // Gives the memory of wholly free chunks and pages back. Returns 0: nothing more can be trimmed. It needs some memory
  // itself, and does nothing without.
  static std::size_t Trim() noexcept;

  // Calls visit(entity) for each entity that ever was one; most useful with a filter on its phase. A snapshot: fibers
  // come and go meanwhile.
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

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_
