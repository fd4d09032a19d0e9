// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EntityCache: one thread's share of the free entities, and of the pool's counts.
//
// It has a magazine, an array of free entities, for each arena that the thread has met. A magazine is filled and
// emptied by halves, so that a fiber more or less does not visit the arena (node_arena.h) each time. When a thread
// ends, its entities go back to the arenas, and its counts are added to those of ended threads. LocalEntityCache() and
// its result: the calling thread; a fiber must not keep the pointer over a switch. Counts: any thread.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_ENTITY_CACHE_H_
#define WEFT_SCHEDULING_GROUP_FIBER_ENTITY_CACHE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {

// A thread's free entities of one arena.
struct EntityMagazine {
  static constexpr std::size_t kCapacity = 128;  // 24 KiB of entities: half an L1 data cache.
  static constexpr std::size_t kExchange = kCapacity / 2;

  // Fills the empty magazine with entities of the arena. False: there is no memory.
  [[nodiscard]] bool Fill(NodeArenaIndex arena);
  // Gives half of the full magazine back.
  void Flush(NodeArenaIndex arena);

  FiberEntity* free[kCapacity];
  std::size_t count = 0;
};

// Only its thread writes its counters.
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

  // Unique in the process, and never 0.
  std::uint64_t NextFiberId() {
    if (next_id_ == end_of_ids_) TakeIds();
    return next_id_++;
  }

  // relaxed: what carries the fiber to its worker carries this too (EP3 in entity_pool.h).
  void CountTaken() { Count(taken_, std::memory_order_relaxed); }
  // release: who counts this end counts the beginning, too (EP3). Pairs with the acquire in CountLiveFibers().
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

// The calling thread's; nullptr: no memory. Never inlined: a fiber that migrates must not reuse its old thread's.
WEFT_TLS_ACCESSOR EntityCache* LocalEntityCache();

// Fibers taken and not given back, over all threads.
std::size_t CountLiveFibers();
// For a thread without a cache that gives an entity back.
void CountGivenBackWithoutCache();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_ENTITY_CACHE_H_
