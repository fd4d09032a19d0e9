// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/entity_pool.h"

#include <new>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/entity_cache.h"
#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {
namespace {

WEFT_NOINLINE WEFT_COLD FiberEntity* RefuseToTake() {
  try {
    WEFT_LOG_EVERY_SECOND(WARNING, "EntityPool: no memory for another fiber, ", EntityPool::LiveFibers(), " are alive");
  } catch (const std::bad_alloc&) {
    // No memory for the line either.
  }
  return nullptr;
}

// By a thread without a cache or magazine, and without memory for one.
WEFT_NOINLINE WEFT_COLD void GiveBackWithoutMagazine(FiberEntity* fiber, EntityPool::Arena arena) {
  NodeArenaAt(arena).GiveBack(&fiber, 1);
  CountGivenBackWithoutCache();
}

}  // namespace

EntityPool::Arena EntityPool::ArenaOn(int node) { return NodeArenaOn(node); }

FiberEntity* EntityPool::Take(Arena arena) {
  EntityCache* cache = LocalEntityCache();
  EntityMagazine* magazine = cache != nullptr ? cache->MagazineOf(arena) : nullptr;
  if (magazine == nullptr || (magazine->count == 0 && !magazine->Fill(arena))) [[unlikely]] {
    return RefuseToTake();
  }
  cache->CountTaken();
  FiberEntity* fiber = magazine->free[--magazine->count];
  fiber->arena_ = arena;
  fiber->id_.store(cache->NextFiberId(), std::memory_order_relaxed);  // For reports; the run queue carries it.
  return fiber;
}

void EntityPool::GiveBack(FiberEntity* fiber) noexcept {
  EntityCache* cache = LocalEntityCache();
  const Arena arena = fiber->arena_;
  EntityMagazine* magazine = cache != nullptr ? cache->MagazineOf(arena) : nullptr;
  if (magazine == nullptr) [[unlikely]] {
    return GiveBackWithoutMagazine(fiber, arena);
  }
  if (magazine->count == EntityMagazine::kCapacity) magazine->Flush(arena);
  magazine->free[magazine->count++] = fiber;
  cache->CountGivenBack();
}

std::size_t EntityPool::LiveFibers() { return CountLiveFibers(); }

std::size_t EntityPool::Trim() noexcept {
  try {
    for (std::size_t arena = 0; arena < kMaxArenas; ++arena) TrimArena(NodeArenaAt(static_cast<Arena>(arena)));
  } catch (const std::bad_alloc&) {
    // Another time.
  }
  return 0;
}

}  // namespace weft::scheduling_group
