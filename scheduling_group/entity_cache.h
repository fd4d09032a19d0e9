// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// EntityCache: what one thread holds of the free entities, and its part of the pool's counts.
//
// For each arena that the thread has met it has a magazine, an array of free entities. A magazine is filled and emptied
// by halves, so that one fiber more or less does not visit the arena (node_arena.h) each time. The cache of a thread
// that ends goes back to the arenas, and its counts are added to those of the threads that are gone.
//
// LocalEntityCache() and what it returns: the calling thread; a fiber that may switch must not keep the pointer.
// Counts: any thread.
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_CACHE_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/node_arena.h"

namespace weft::scheduling_group {

// A thread's free entities of one arena.
struct EntityMagazine {
  static constexpr std::size_t kCapacity = 128;  // 24 KiB of entities: half an L1 data cache.
  static constexpr std::size_t kExchange = kCapacity / 2;

  // The empty magazine gets entities of the arena. False: there is no memory.
  [[nodiscard]] bool Fill(NodeArenaIndex arena);
  // The full magazine gives half of its entities back.
  void Flush(NodeArenaIndex arena);

  FiberEntity* free[kCapacity];
  std::size_t count = 0;
};

// Its counters are written by its thread only.
class EntityCache {
 public:
  EntityCache() = default;
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

  // Never the same again, in the whole process; never 0.
  std::uint64_t NextFiberId() {
    if (next_id_ == end_of_ids_) TakeIds();
    return next_id_++;
  }

  // relaxed: what carries the fiber to its worker carries this too (EP3 in entity_pool.h).
  void CountTaken() { Count(taken_, std::memory_order_relaxed); }
  // release: who counts this end counts the beginning too (EP3). Pairs with the acquire in CountLiveFibers().
  void CountGivenBack() { Count(given_back_, std::memory_order_release); }

  // The thread's last act with it.
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

// Of the calling thread. Never inlined: a fiber that migrates must not reuse an address of its old thread. nullptr:
// there is no memory.
WEFT_TLS_ACCESSOR EntityCache* LocalEntityCache();

// Fibers taken and not given back, over all threads.
std::size_t CountLiveFibers();
// What a thread gives back that has no cache.
void CountGivenBackWithoutCache();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_CACHE_H_
