// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/base/spin_lock.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kMaxChunks = std::size_t{1} << 16;  // About 89 million fibers alive.
constexpr std::size_t kCacheSize = 128;                   // 24 KiB of entities: half an L1 data cache.
constexpr std::size_t kExchange = kCacheSize / 2;
constexpr std::uint64_t kIdBlock = 4096;  // One shared increment per so many fibers of a thread.

// What one thread holds. Its counters are written by that thread only.
struct ThreadCache {
  FiberEntity* free[kCacheSize];
  std::size_t count = 0;
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> given_back{0};
  std::uint64_t next_id = 0;
  std::uint64_t end_of_ids = 0;
  ThreadCache* next = nullptr;  // in Central::caches
};

struct Central {
  base::SpinLock lock;
  std::vector<FiberEntity*> free WEFT_GUARDED_BY(lock);
  std::vector<std::uint32_t> cold_chunks WEFT_GUARDED_BY(lock);  // wholly free, pages given back
  ThreadCache* caches WEFT_GUARDED_BY(lock) = nullptr;
  std::uint64_t taken_by_the_gone WEFT_GUARDED_BY(lock) = 0;
  std::uint64_t given_back_by_the_gone WEFT_GUARDED_BY(lock) = 0;
  std::atomic<std::uint64_t> next_id_block{1};
  std::atomic<std::size_t> chunk_count{0};
};

// Reachable for debuggers under this name; never destroyed, since threads may end after static destructors.
FiberEntity* weft_fiber_chunks[kMaxChunks];

Central& TheCentral() {
  static auto* central = new Central;
  return *central;
}

// A trivial pointer for speed, and beside it an object whose destructor returns the cache when the thread ends.
thread_local ThreadCache* tls_cache = nullptr;
thread_local bool tls_cache_gone = false;

void ReturnCache(ThreadCache* cache) {
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  central.free.insert(central.free.end(), cache->free, cache->free + cache->count);
  central.taken_by_the_gone += cache->taken.load(std::memory_order_relaxed);  // Its thread is ours.
  central.given_back_by_the_gone += cache->given_back.load(std::memory_order_relaxed);
  for (ThreadCache** link = &central.caches; *link != nullptr; link = &(*link)->next) {
    if (*link == cache) {
      *link = cache->next;
      break;
    }
  }
}

struct CacheOwner {
  ThreadCache* cache = nullptr;
  ~CacheOwner() {
    if (cache == nullptr) return;
    tls_cache = nullptr;
    tls_cache_gone = true;
    ReturnCache(cache);
    delete cache;
  }
};
thread_local CacheOwner tls_cache_owner;

WEFT_NOINLINE ThreadCache* MakeThreadCache() {
  WEFT_CHECK(!tls_cache_gone, "EntityPool: used by a destructor of a thread_local after the thread's cache is gone");
  auto* cache = new ThreadCache;
  tls_cache_owner.cache = cache;
  tls_cache = cache;
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  cache->next = central.caches;
  central.caches = cache;
  return cache;
}

// Never inlined: a fiber that migrates must not reuse an address of its old thread.
WEFT_TLS_ACCESSOR ThreadCache& LocalCache() {
  ThreadCache* cache = tls_cache;
  return cache != nullptr ? *cache : *MakeThreadCache();
}

void Count(std::atomic<std::uint64_t>& counter, std::memory_order order) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, order);  // Only this thread writes it.
}

// A new chunk's entities, or a cold one's, into the central stack.
bool Grow(Central& central) WEFT_REQUIRES(central.lock) {
  std::uint32_t index;
  if (!central.cold_chunks.empty()) {
    index = central.cold_chunks.back();
    central.cold_chunks.pop_back();
  } else {
    const std::size_t count = central.chunk_count.load(std::memory_order_relaxed);  // Written under the lock only.
    if (count == kMaxChunks) return false;
    void* memory = ::mmap(nullptr, EntityPool::kChunkBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    weft_fiber_chunks[count] = static_cast<FiberEntity*>(memory);  // Zeroes are free entities (EP1).
#if WEFT_ASAN
    __lsan_register_root_region(memory, EntityPool::kChunkBytes);  // What only a fiber refers to is no leak.
#endif
    index = static_cast<std::uint32_t>(count);
    // release: publishes the table entry. Pairs with the acquire in ChunkCount().
    central.chunk_count.store(count + 1, std::memory_order_release);
  }
  FiberEntity* chunk = weft_fiber_chunks[index];
  for (std::size_t i = EntityPool::kEntitiesPerChunk; i-- > 0;) central.free.push_back(&chunk[i]);
  return true;
}

WEFT_NOINLINE bool Refill(ThreadCache& cache) {
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  if (central.free.size() < kExchange) Grow(central);
  const std::size_t n = std::min(kExchange, central.free.size());
  std::copy(central.free.end() - static_cast<std::ptrdiff_t>(n), central.free.end(), cache.free);
  central.free.resize(central.free.size() - n);
  cache.count = n;
  return n != 0;
}

WEFT_NOINLINE void Flush(ThreadCache& cache) {
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  // The coldest half; the most recently used stay.
  central.free.insert(central.free.end(), cache.free, cache.free + kExchange);
  std::copy(cache.free + kExchange, cache.free + kCacheSize, cache.free);
  cache.count = kCacheSize - kExchange;
}

}  // namespace

FiberHooks fiber_hooks;

FiberEntity* EntityPool::Take() {
  ThreadCache& cache = LocalCache();
  if (cache.count == 0 && !Refill(cache)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "EntityPool: no memory for another fiber, ", LiveFibers(), " are alive");
    return nullptr;
  }
  // relaxed: what carries the fiber to its worker carries this too (EP3).
  Count(cache.taken, std::memory_order_relaxed);
  return cache.free[--cache.count];
}

void EntityPool::GiveBack(FiberEntity* fiber) {
  ThreadCache& cache = LocalCache();
  if (cache.count == kCacheSize) Flush(cache);
  cache.free[cache.count++] = fiber;
  // release: who counts this end counts the beginning too (EP3). Pairs with the acquire in LiveFibers().
  Count(cache.given_back, std::memory_order_release);
}

std::size_t EntityPool::LiveFibers() {
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  std::uint64_t given_back = central.given_back_by_the_gone;
  for (ThreadCache* c = central.caches; c != nullptr; c = c->next) {
    given_back += c->given_back.load(std::memory_order_acquire);  // Pairs with the release in GiveBack().
  }
  std::uint64_t taken = central.taken_by_the_gone;
  for (ThreadCache* c = central.caches; c != nullptr; c = c->next) taken += c->taken.load(std::memory_order_relaxed);
  return taken - given_back;
}

std::uint64_t EntityPool::TakenEver() {
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  std::uint64_t taken = central.taken_by_the_gone;
  for (ThreadCache* c = central.caches; c != nullptr; c = c->next) taken += c->taken.load(std::memory_order_relaxed);
  return taken;
}

std::uint64_t EntityPool::NextFiberId() {
  ThreadCache& cache = LocalCache();
  if (cache.next_id == cache.end_of_ids) {
    // relaxed: only uniqueness counts.
    cache.next_id = TheCentral().next_id_block.fetch_add(kIdBlock, std::memory_order_relaxed);
    cache.end_of_ids = cache.next_id + kIdBlock;
  }
  return cache.next_id++;
}

std::size_t EntityPool::ChunkCount() {
  return TheCentral().chunk_count.load(std::memory_order_acquire);  // Pairs with the release in Grow().
}

FiberEntity* EntityPool::ChunkAt(std::size_t index) { return weft_fiber_chunks[index]; }

std::size_t EntityPool::Trim() {
  Central& central = TheCentral();
  std::vector<FiberEntity*> free;
  {
    base::SpinLockGuard guard(central.lock);
    if (central.free.size() < 2 * kEntitiesPerChunk) return 0;
    free.swap(central.free);  // Others grow cold chunks or new ones meanwhile; we are rare.
  }
  // Chunks by address, so that an entity's chunk is found by a search.
  const std::size_t chunks = ChunkCount();
  std::vector<std::pair<FiberEntity*, std::uint32_t>> by_address(chunks);
  for (std::uint32_t c = 0; c < chunks; ++c) by_address[c] = {ChunkAt(c), c};
  std::sort(by_address.begin(), by_address.end());
  auto chunk_of = [&](FiberEntity* fiber) {
    return std::prev(std::upper_bound(by_address.begin(), by_address.end(), fiber,
                                      [](FiberEntity* f, const auto& chunk) { return f < chunk.first; }))
        ->second;
  };
  std::vector<std::uint32_t> free_in(chunks, 0);
  for (FiberEntity* fiber : free) ++free_in[chunk_of(fiber)];
  std::vector<std::uint32_t> cold;
  // One wholly free chunk stays warm.
  bool kept_one = false;
  for (std::uint32_t c = 0; c < chunks; ++c) {
    if (free_in[c] != kEntitiesPerChunk) continue;
    if (!kept_one) {
      kept_one = true;
      free_in[c] = 0;
      continue;
    }
    // The pages read as zeroes afterwards: free entities (EP1). A failure leaves them as they are, which is as good.
    (void)::madvise(ChunkAt(c), kChunkBytes, MADV_DONTNEED);
    cold.push_back(c);
  }
  std::erase_if(free, [&](FiberEntity* fiber) { return free_in[chunk_of(fiber)] == kEntitiesPerChunk; });
  free.shrink_to_fit();
  base::SpinLockGuard guard(central.lock);
  central.cold_chunks.insert(central.cold_chunks.end(), cold.begin(), cold.end());
  if (central.free.empty()) {
    central.free.swap(free);
  } else {
    central.free.insert(central.free.end(), free.begin(), free.end());
  }
  return 0;
}

FiberEntity* AllocateFiber(SchedulingGroup* group, const StartOptions& options) {
  FiberEntity* fiber = EntityPool::Take();
  if (fiber == nullptr) return nullptr;
  fiber->state_.OnCreated();
  fiber->id_.store(EntityPool::NextFiberId(), std::memory_order_relaxed);  // For reports; the queue carries it.
  fiber->set_group(group);
  fiber->group_local_ = options.group_local;
  if (options.stack_size != 0) fiber->stack_size_ = options.stack_size;
  if (options.name != nullptr) fiber->name_ = ::strdup(options.name);
  if (options.execution_context != nullptr) fiber->execution_context = options.execution_context;
  if (options.on_exit != nullptr) {
    fiber->on_exit_ = options.on_exit;
    fiber->on_exit_arg_ = options.on_exit_arg;
  }
  return fiber;
}

void DiscardFiber(FiberEntity* fiber) {
  fiber->callable_(fiber, FiberEntity::CallableOp::kDestroy);
  if (fiber->execution_context != nullptr) fiber_hooks.release_execution_context(fiber);
  std::free(std::exchange(fiber->name_, nullptr));
  fiber->stack_size_ = 0;
  fiber->on_exit_ = nullptr;
  fiber->on_exit_arg_ = nullptr;
  fiber->state_.OnDiscarded();
  EntityPool::GiveBack(fiber);
}

}  // namespace weft::scheduling_group
