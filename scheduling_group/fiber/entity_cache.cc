// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/entity_cache.h"

#include <algorithm>
#include <new>

#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/thread/thread_end.h"

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

  // Reads the counts given back first (EP3 in entity_pool.h).
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
  (void)at_thread_end.Arm(cache);  // If Arm() fails, the cache stays for ever, with its counts and entities.
  SetCacheOfThread(cache);
  all_caches.Add(cache);
  return cache;
}

}  // namespace

WEFT_NOINLINE bool EntityMagazine::Fill(NodeArenaIndex arena) {
  count = NodeArenaAt(arena).Take(free, kExchange);
  return count != 0;
}

WEFT_NOINLINE void EntityMagazine::Flush(NodeArenaIndex arena) {
  // The half used least recently.
  NodeArenaAt(arena).GiveBack(free, kExchange);
  std::copy(free + kExchange, free + kCapacity, free);
  count = kCapacity - kExchange;
}

EntityCache::~EntityCache() {
  for (EntityMagazine* magazine : others_) delete magazine;
}

WEFT_NOINLINE EntityMagazine* EntityCache::MakeMagazine(NodeArenaIndex arena) {
  return others_[arena] = new (std::nothrow) EntityMagazine;
}

WEFT_NOINLINE void EntityCache::TakeIds() {
  // relaxed: only uniqueness counts.
  next_id_ = next_id_block.fetch_add(kIdBlock, std::memory_order_relaxed);
  end_of_ids_ = next_id_ + kIdBlock;
}

void EntityCache::ReturnEntities() {
  NodeArenaAt(kAnyNodeArena).GiveBack(anywhere_.free, anywhere_.count);
  for (std::size_t arena = 0; arena < kMaxNodeArenas; ++arena) {
    const EntityMagazine* magazine = others_[arena];
    if (magazine != nullptr) {
      NodeArenaAt(static_cast<NodeArenaIndex>(arena)).GiveBack(magazine->free, magazine->count);
    }
  }
}

WEFT_TLS_ACCESSOR EntityCache* LocalEntityCache() {
  EntityCache* cache = tls_cache;
  return cache != nullptr ? cache : MakeThreadCache();
}

std::size_t CountLiveFibers() { return all_caches.CountLive(); }
void CountGivenBackWithoutCache() { all_caches.CountGivenBack(); }

}  // namespace weft::scheduling_group
