// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EntityPool: allocates the control blocks of fibers, and is the registry of all fibers.
//
// Entities lie in chunks that are never unmapped. So a pointer to an entity is always readable, and a fiber that starts
// enters no list. Free entities lie in per-thread caches (entity_pool.h) and in an arena that exchanges half a cache at
// a time under a SpinLock (node_arena.h). After a burst Trim() gives wholly free chunks and pages back to the
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
//   EP2  An entity is in exactly one place: held by a thread, in a cache, in a full pack of its arena, in the central
//        stack or in a cold chunk.
//   EP3  LiveFibers() == 0 is exact: it reads the threads' counts of entities given back before those of entities
//        taken, and both only grow.
//   EP4  A cache, pack, central stack or cold chunk of an arena holds entities of that arena only. So Take(arena) always
//        returns one on the arena's node, whichever threads have used it before.
// All functions: any thread.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_
#define WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
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

// A cache has a magazine for each arena that the thread has met: two packs, so that a fiber more or less does not visit
// the arena each time. A full or empty pack is exchanged as a whole.
class EntityMagazine {
 public:
  static constexpr std::size_t kCapacity = 2 * EntityPack::kSize;  // 24 KiB of entities: half an L1 data cache.

  EntityMagazine() = default;
  EntityMagazine(const EntityMagazine&) = delete;
  EntityMagazine& operator=(const EntityMagazine&) = delete;

  // Once, before the others. False: there is no memory.
  [[nodiscard]] bool TakePacks(NodeArenaIndex arena) noexcept;

  // nullptr: there is no memory.
  FiberEntity* Take(NodeArenaIndex arena) {
    if (count_ == 0 && !Fill(arena)) [[unlikely]] {
      return nullptr;
    }
    return hot_->entities[--count_];
  }
  void Put(FiberEntity* entity, NodeArenaIndex arena) {
    if (count_ == EntityPack::kSize) [[unlikely]] {
      Flush(arena);
    }
    hot_->entities[count_++] = entity;
  }
  // The last call: gives all back, also the packs.
  void Return(NodeArenaIndex arena);

 private:
  bool Fill(NodeArenaIndex arena);
  void Flush(NodeArenaIndex arena);

  std::size_t count_ = 0;  // in `hot_`
  EntityPack* hot_ = nullptr;
  EntityPack* cold_ = nullptr;  // full or empty; used less recently
  bool cold_is_full_ = false;
};

// One thread's share of the free entities, and of the pool's counts, which only its thread writes and any thread reads.
// When the thread ends, its entities go back to the arenas, and its counts are added to those of ended threads.
class EntityCache {
 public:
  EntityCache() = default;
  [[nodiscard]] bool TakePacks() noexcept { return anywhere_.TakePacks(kAnyNodeArena); }
  EntityCache(const EntityCache&) = delete;
  EntityCache& operator=(const EntityCache&) = delete;
  ~EntityCache();

  // nullptr: there is no memory.
  EntityMagazine* MagazineOf(NodeArenaIndex arena) {
    if (arena == kAnyNodeArena) [[likely]] {
      return &anywhere_;
    }
    EntityMagazine* magazine = others_[arena];
    return magazine != nullptr ? magazine : MakeMagazine(arena);
  }

  // Unique in the process, and never 0.
  std::uint64_t NextFiberId() {
    if (next_id_ == end_of_ids_) TakeIds();
    return next_id_++;
  }

  // relaxed: what carries the fiber to its worker carries this too (EP3).
  void CountTaken() { Count(taken_, std::memory_order_relaxed); }
  // release: who counts this end counts the beginning, too (EP3). Pairs with the acquire in CountLive().
  void CountGivenBack() { Count(given_back_, std::memory_order_release); }

  // The thread's last call.
  void ReturnEntities();

 private:
  friend class EntityCaches;

  static void Count(std::atomic<std::uint64_t>& counter, std::memory_order order) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, order);  // Only this thread writes it.
  }
  EntityMagazine* MakeMagazine(NodeArenaIndex arena);
  void TakeIds();

  EntityMagazine anywhere_;                   // of kAnyNodeArena
  EntityMagazine* others_[kMaxNodeArenas]{};  // by arena; made when first used
  std::atomic<std::uint64_t> taken_{0};
  std::atomic<std::uint64_t> given_back_{0};
  std::uint64_t next_id_ = 0;
  std::uint64_t end_of_ids_ = 0;
  EntityCache* next_ = nullptr;  // in EntityCaches
};

// The calling thread's; nullptr: no memory. A fiber must not keep it over a switch; hence never inlined.
WEFT_TLS_ACCESSOR EntityCache* LocalEntityCache();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_ENTITY_POOL_H_
