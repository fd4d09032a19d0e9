// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EntityPool: where fibers' control blocks come from, and the registry of all fibers.
//
// Chunks of entities (256 KiB each) hang in one global table and are never unmapped: a pointer to an entity is always
// readable, a debugger or a core dump finds every fiber by walking the table, and no fiber needs to be entered into a
// list when it starts. Free entities lie in per-thread caches (arrays of pointers; nothing is written into a free
// entity) and in one central stack that exchanges half a cache at a time under a SpinLock. After a burst Trim() gives
// the pages of chunks that are wholly free back to the OS; they read as zeroes then, which is a free entity.
//
// It also counts: each thread counts the entities it took and gave back; LiveFibers() adds them up.
//
// Invariants
//   EP1  A free entity has phase kDead and null cold fields; its id is that of its last fiber, or 0.
//   EP2  An entity is in one thread's hands, in one cache, in the central stack or in a cold chunk: exactly one.
//   EP3  LiveFibers() == 0 is exact: what was given back is read before what was taken, and both only grow.
//
// All functions: any thread.
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/scheduling_group/fiber_entity.h"

namespace weft::scheduling_group {

class EntityPool {
 public:
  static FiberEntity* Take();                // nullptr: memory or table exhausted
  static void GiveBack(FiberEntity* fiber);  // kDead, cold fields null
  static std::size_t LiveFibers();           // taken and not given back
  static std::uint64_t TakenEver();          // total number of fibers created in this process
  static std::uint64_t NextFiberId();        // never reused; 0 is never given

  // Gives pages of wholly free chunks back. Returns 0: nothing more can be trimmed.
  static std::size_t Trim();

  // Calls visit(entity) for each entity that ever was one; most useful with a filter on its phase. A snapshot: fibers
  // come and go meanwhile.
  template <class Visit>
  static void ForEach(Visit visit) {
    const std::size_t chunks = ChunkCount();
    for (std::size_t c = 0; c < chunks; ++c) {
      FiberEntity* chunk = ChunkAt(c);
      for (std::size_t i = 0; i < kEntitiesPerChunk; ++i) visit(&chunk[i]);
    }
  }

  static constexpr std::size_t kChunkBytes = 256 * 1024;
  static constexpr std::size_t kEntitiesPerChunk = kChunkBytes / sizeof(FiberEntity);

 private:
  static std::size_t ChunkCount();
  static FiberEntity* ChunkAt(std::size_t index);
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_POOL_H_
