// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/entity_pool.h"

#include <new>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/exit.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {

// All caches, and the counts of ended threads. Never destroyed, since threads may end after static destructors.
class EntityCaches {
 public:
  void Add(EntityCache* cache) {
    base::SpinLockGuard guard(lock_);
    cache->next_ = caches_;
    caches_ = cache;
  }

  // By the cache's thread, which ends.
  void Remove(EntityCache* cache) {
    base::SpinLockGuard guard(lock_);
    taken_by_the_gone_ += cache->taken_.load(std::memory_order_relaxed);  // Written by this thread.
    given_back_by_the_gone_ += cache->given_back_.load(std::memory_order_relaxed);
    for (EntityCache** link = &caches_; *link != nullptr; link = &(*link)->next_) {
      if (*link == cache) {
        *link = cache->next_;
        break;
      }
    }
  }

  // Reads the counts given back first (EP3).
  std::size_t CountLive() {
    base::SpinLockGuard guard(lock_);
    std::uint64_t given_back = given_back_by_the_gone_;
    for (EntityCache* c = caches_; c != nullptr; c = c->next_) {
      given_back += c->given_back_.load(std::memory_order_acquire);  // Pairs with the release in CountGivenBack().
    }
    std::uint64_t taken = taken_by_the_gone_;
    for (EntityCache* c = caches_; c != nullptr; c = c->next_) taken += c->taken_.load(std::memory_order_relaxed);
    return taken - given_back;
  }

  void CountGivenBack() {
    base::SpinLockGuard guard(lock_);
    ++given_back_by_the_gone_;
  }

 private:
  base::SpinLock lock_;
  EntityCache* caches_ WEFT_GUARDED_BY(lock_) = nullptr;
  std::uint64_t taken_by_the_gone_ WEFT_GUARDED_BY(lock_) = 0;
  std::uint64_t given_back_by_the_gone_ WEFT_GUARDED_BY(lock_) = 0;
};

namespace {

constexpr std::uint64_t kIdBlock = 4096;  // A thread makes one shared increment per so many fibers.

constinit EntityCaches all_caches;
constinit std::atomic<std::uint64_t> next_id_block{1};

// Trivial: fast, and there until the thread's end. A thread whose cache was returned may get a new one.
constinit thread_local EntityCache* tls_cache = nullptr;

WEFT_TLS_ACCESSOR void SetCacheOfThread(EntityCache* cache) {
  base::OpaqueBarrier();
  tls_cache = cache;
}

void EndCache(void* of_thread) {
  auto* cache = static_cast<EntityCache*>(of_thread);
  SetCacheOfThread(nullptr);
  cache->ReturnEntities();
  all_caches.Remove(cache);
  delete cache;
}

constinit base::ThreadEnd at_thread_end(&EndCache);

WEFT_NOINLINE EntityCache* MakeThreadCache() {
  auto* cache = new (std::nothrow) EntityCache;
  if (cache == nullptr) return nullptr;
  if (!cache->TakePacks()) {
    delete cache;
    return nullptr;
  }
  (void)at_thread_end.Arm(cache);  // If Arm() fails, the cache stays for ever, with its counts and entities.
  SetCacheOfThread(cache);
  all_caches.Add(cache);
  return cache;
}

}  // namespace

bool EntityMagazine::TakePacks(NodeArenaIndex arena) noexcept {
  hot_ = NodeArenaAt(arena).TakeEmptyPack();
  cold_ = NodeArenaAt(arena).TakeEmptyPack();
  if (cold_ != nullptr && hot_ != nullptr) return true;
  for (EntityPack* pack : {hot_, cold_}) {
    if (pack != nullptr) NodeArenaAt(arena).GiveEmptyPack(pack);
  }
  return false;
}

WEFT_NOINLINE bool EntityMagazine::Fill(NodeArenaIndex arena) {
  if (cold_is_full_) {
    std::swap(hot_, cold_);
    cold_is_full_ = false;
    count_ = EntityPack::kSize;
    return true;
  }
  hot_ = NodeArenaAt(arena).Fill(hot_, &count_);
  return count_ != 0;
}

WEFT_NOINLINE void EntityMagazine::Flush(NodeArenaIndex arena) {
  if (cold_is_full_) cold_ = NodeArenaAt(arena).Flush(cold_);
  std::swap(hot_, cold_);
  cold_is_full_ = true;
  count_ = 0;
}

void EntityMagazine::Return(NodeArenaIndex arena) {
  NodeArenaAt(arena).GiveBack(hot_->entities, count_);
  if (cold_is_full_) NodeArenaAt(arena).GiveBack(cold_->entities, EntityPack::kSize);
  for (EntityPack* pack : {hot_, cold_}) NodeArenaAt(arena).GiveEmptyPack(pack);
}

EntityCache::~EntityCache() {
  for (EntityMagazine* magazine : others_) delete magazine;
}

WEFT_NOINLINE EntityMagazine* EntityCache::MakeMagazine(NodeArenaIndex arena) {
  auto* const magazine = new (std::nothrow) EntityMagazine;
  if (magazine != nullptr && !magazine->TakePacks(arena)) {
    delete magazine;
    return nullptr;
  }
  return others_[arena] = magazine;
}

WEFT_NOINLINE void EntityCache::TakeIds() {
  // relaxed: only uniqueness counts.
  next_id_ = next_id_block.fetch_add(kIdBlock, std::memory_order_relaxed);
  end_of_ids_ = next_id_ + kIdBlock;
}

void EntityCache::ReturnEntities() {
  anywhere_.Return(kAnyNodeArena);
  for (std::size_t arena = 0; arena < kMaxNodeArenas; ++arena) {
    EntityMagazine* magazine = others_[arena];
    if (magazine != nullptr) magazine->Return(static_cast<NodeArenaIndex>(arena));
  }
}

WEFT_TLS_ACCESSOR EntityCache* LocalEntityCache() {
  base::OpaqueBarrier();
  EntityCache* cache = tls_cache;
  return cache != nullptr ? cache : MakeThreadCache();
}

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
  all_caches.CountGivenBack();
}

}  // namespace

EntityPool::Arena EntityPool::ArenaOn(int node) { return NodeArenaOn(node); }

FiberEntity* EntityPool::Take(Arena arena) {
  EntityCache* cache = LocalEntityCache();
  EntityMagazine* magazine = cache != nullptr ? cache->MagazineOf(arena) : nullptr;
  FiberEntity* fiber = magazine != nullptr ? magazine->Take(arena) : nullptr;
  if (fiber == nullptr) [[unlikely]] {
    return RefuseToTake();
  }
  cache->CountTaken();
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
  magazine->Put(fiber, arena);
  cache->CountGivenBack();
}

std::size_t EntityPool::LiveFibers() { return all_caches.CountLive(); }

std::size_t EntityPool::Trim() noexcept {
  try {
    for (std::size_t arena = 0; arena < kMaxArenas; ++arena) TrimArena(NodeArenaAt(static_cast<Arena>(arena)));
  } catch (const std::bad_alloc&) {
    // Another time.
  }
  return 0;
}

}  // namespace weft::scheduling_group
