// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstdlib>
#include <system_error>
#include <utility>

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/base/spin_lock.h"
#include "weft/base/thread_end.h"
#include "weft/numa/affinity.h"
#include "weft/scheduling_group/drain.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kMaxChunks = std::size_t{1} << 16;  // About 89 million fibers alive.
constexpr std::size_t kCacheSize = 128;                   // 24 KiB of entities: half an L1 data cache.
constexpr std::size_t kExchange = kCacheSize / 2;
constexpr std::uint64_t kIdBlock = 4096;  // One shared increment per so many fibers of a thread.

// A thread's free entities of one home.
struct Shelf {
  FiberEntity* free[kCacheSize];
  std::size_t count = 0;
};

// What one thread holds. Its counters are written by that thread only.
struct ThreadCache {
  Shelf anywhere;                          // of home kAnywhere
  Shelf* others[EntityPool::kMaxHomes]{};  // by home; made when first used
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> given_back{0};
  std::uint64_t next_id = 0;  // never reused; 0 is never given
  std::uint64_t end_of_ids = 0;
  ThreadCache* next = nullptr;  // in Central::caches

  ~ThreadCache() {
    for (Shelf* shelf : others) delete shelf;
  }
};

// What all threads share of one home.
struct alignas(base::kCacheLineSize) CentralStack {
  base::SpinLock lock;
  std::vector<FiberEntity*> free WEFT_GUARDED_BY(lock);
  std::vector<std::uint32_t> cold_chunks WEFT_GUARDED_BY(lock);  // wholly free, pages given back
  std::vector<std::uint32_t> chunks WEFT_GUARDED_BY(lock);       // all of the home
  int node = -1;                                                 // set by HomeOn() before it returns the home

  void AddChunk(std::uint32_t index) WEFT_REQUIRES(lock);
  void CopyTo(Shelf& shelf) WEFT_REQUIRES(lock);
};

struct Central {
  CentralStack homes[EntityPool::kMaxHomes];
  base::SpinLock lock;
  std::size_t home_count WEFT_GUARDED_BY(lock) = 1;
  ThreadCache* caches WEFT_GUARDED_BY(lock) = nullptr;
  std::uint64_t taken_by_the_gone WEFT_GUARDED_BY(lock) = 0;
  std::uint64_t given_back_by_the_gone WEFT_GUARDED_BY(lock) = 0;
  std::atomic<std::uint64_t> next_id_block{1};
  std::atomic<std::size_t> chunk_count{0};  // written under the lock
};

// Reachable for debuggers under this name; never destroyed, since threads may end after static destructors.
FiberEntity* weft_fiber_chunks[kMaxChunks];

Central& TheCentral() {
  static auto* central = new Central;
  return *central;
}

// Trivial, for speed and to the end of the thread. A thread whose cache has been returned gets a new one if it needs it.
constinit thread_local ThreadCache* tls_cache = nullptr;

void ReturnShelf(const Shelf& shelf, CentralStack& home) {
  base::SpinLockGuard guard(home.lock);
  home.free.insert(home.free.end(), shelf.free, shelf.free + shelf.count);
}

void ReturnCache(ThreadCache* cache) {
  Central& central = TheCentral();
  ReturnShelf(cache->anywhere, central.homes[EntityPool::kAnywhere]);
  for (std::size_t home = 0; home < EntityPool::kMaxHomes; ++home) {
    if (cache->others[home] != nullptr) ReturnShelf(*cache->others[home], central.homes[home]);
  }
  base::SpinLockGuard guard(central.lock);
  central.taken_by_the_gone += cache->taken.load(std::memory_order_relaxed);  // Its thread is ours.
  central.given_back_by_the_gone += cache->given_back.load(std::memory_order_relaxed);
  for (ThreadCache** link = &central.caches; *link != nullptr; link = &(*link)->next) {
    if (*link == cache) {
      *link = cache->next;
      break;
    }
  }
}

WEFT_TLS_ACCESSOR void SetCacheOfThread(ThreadCache* cache) {
  base::OpaqueBarrier();
  tls_cache = cache;
}

void EndCache(void* of_thread) {
  auto* cache = static_cast<ThreadCache*>(of_thread);
  SetCacheOfThread(nullptr);
  ReturnCache(cache);
  delete cache;
}

constinit base::ThreadEnd at_thread_end(&EndCache);

WEFT_NOINLINE ThreadCache* MakeThreadCache() {
  auto* cache = new ThreadCache;
  (void)at_thread_end.Arm(cache);  // Else it stays, with its counts and what it holds.
  SetCacheOfThread(cache);
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

WEFT_NOINLINE Shelf& MakeShelf(ThreadCache& cache, EntityPool::Home home) {
  cache.others[home] = new Shelf;
  return *cache.others[home];
}

Shelf& ShelfOf(ThreadCache& cache, EntityPool::Home home) {
  if (home == EntityPool::kAnywhere) [[likely]] {
    return cache.anywhere;
  }
  Shelf* shelf = cache.others[home];
  return shelf != nullptr ? *shelf : MakeShelf(cache, home);
}

// A new chunk on `node`, entered into the table; its index, or kMaxChunks: there is no memory or no room in the table.
// Makes system calls: not under a lock.
std::size_t MakeChunk(Central& central, int node) {
  void* memory = ::mmap(nullptr, EntityPool::kChunkBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kMaxChunks;
  if (const std::error_code error = numa::BindMemory(memory, EntityPool::kChunkBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "fibers of node ", node, " are kept elsewhere: ", error.message());
  }
  {
    base::SpinLockGuard guard(central.lock);
    const std::size_t count = central.chunk_count.load(std::memory_order_relaxed);  // Written under the lock only.
    if (count < kMaxChunks) {
      weft_fiber_chunks[count] = static_cast<FiberEntity*>(memory);  // Zeroes are free entities (EP1).
#if WEFT_ASAN
      __lsan_register_root_region(memory, EntityPool::kChunkBytes);  // What only a fiber refers to is no leak.
#endif
      // release: publishes the table entry. Pairs with the acquire in ChunkCount().
      central.chunk_count.store(count + 1, std::memory_order_release);
      return count;
    }
  }
  ::munmap(memory, EntityPool::kChunkBytes);
  return kMaxChunks;
}

void CentralStack::AddChunk(std::uint32_t index) {
  FiberEntity* chunk = weft_fiber_chunks[index];
  for (std::size_t i = EntityPool::kEntitiesPerChunk; i-- > 0;) free.push_back(&chunk[i]);
}

void CentralStack::CopyTo(Shelf& shelf) {
  const std::size_t n = std::min(kExchange, free.size());
  std::copy(free.end() - static_cast<std::ptrdiff_t>(n), free.end(), shelf.free);
  free.resize(free.size() - n);
  shelf.count = n;
}

// The empty shelf, from the central stack, a cold chunk or a new one.
WEFT_NOINLINE bool Refill(Shelf& shelf, EntityPool::Home home) {
  Central& central = TheCentral();
  CentralStack& stack = central.homes[home];
  {
    base::SpinLockGuard guard(stack.lock);
    if (stack.free.size() < kExchange && !stack.cold_chunks.empty()) {
      stack.AddChunk(stack.cold_chunks.back());
      stack.cold_chunks.pop_back();
    }
    stack.CopyTo(shelf);
  }
  if (shelf.count != 0) return true;
  const std::size_t index = MakeChunk(central, stack.node);
  base::SpinLockGuard guard(stack.lock);
  if (index != kMaxChunks) {
    stack.chunks.push_back(static_cast<std::uint32_t>(index));
    stack.AddChunk(static_cast<std::uint32_t>(index));
  }
  stack.CopyTo(shelf);
  return shelf.count != 0;
}

WEFT_NOINLINE void Flush(Shelf& shelf, EntityPool::Home home) {
  CentralStack& stack = TheCentral().homes[home];
  base::SpinLockGuard guard(stack.lock);
  // The coldest half; the most recently used stay.
  stack.free.insert(stack.free.end(), shelf.free, shelf.free + kExchange);
  std::copy(shelf.free + kExchange, shelf.free + kCacheSize, shelf.free);
  shelf.count = kCacheSize - kExchange;
}

std::uint64_t NextFiberId(ThreadCache& cache) {
  if (cache.next_id == cache.end_of_ids) {
    // relaxed: only uniqueness counts.
    cache.next_id = TheCentral().next_id_block.fetch_add(kIdBlock, std::memory_order_relaxed);
    cache.end_of_ids = cache.next_id + kIdBlock;
  }
  return cache.next_id++;
}

}  // namespace

FiberHooks fiber_hooks;

EntityPool::Home EntityPool::HomeOn(int node) {
  if (node < 0) return kAnywhere;
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  for (std::size_t home = 1; home < central.home_count; ++home) {
    if (central.homes[home].node == node) return static_cast<Home>(home);
  }
  if (central.home_count == kMaxHomes) return kAnywhere;
  central.homes[central.home_count].node = node;
  return static_cast<Home>(central.home_count++);
}

FiberEntity* EntityPool::Take(Home home) {
  ThreadCache& cache = LocalCache();
  Shelf& shelf = ShelfOf(cache, home);
  if (shelf.count == 0 && !Refill(shelf, home)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "EntityPool: no memory for another fiber, ", LiveFibers(), " are alive");
    return nullptr;
  }
  // relaxed: what carries the fiber to its worker carries this too (EP3).
  Count(cache.taken, std::memory_order_relaxed);
  FiberEntity* fiber = shelf.free[--shelf.count];
  fiber->home_ = home;
  fiber->id_.store(NextFiberId(cache), std::memory_order_relaxed);  // For reports; the queue carries it.
  return fiber;
}

void EntityPool::GiveBack(FiberEntity* fiber) {
  ThreadCache& cache = LocalCache();
  const Home home = fiber->home_;
  Shelf& shelf = ShelfOf(cache, home);
  if (shelf.count == kCacheSize) Flush(shelf, home);
  shelf.free[shelf.count++] = fiber;
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

namespace {

// Which entities of a chunk are in the hands of Trim().
using ChunkMap = std::bitset<EntityPool::kEntitiesPerChunk>;

// Of a chunk of which some entities are in use, or in a thread's cache: the pages that hold none of those. They read as
// zeroes afterwards, which is a free entity (EP1); their entities stay where they are, among the free ones. A few
// entities in caches would keep a chunk each otherwise.
void DiscardFreePages(FiberEntity* chunk, const ChunkMap& free) {
  const auto page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  char* const begin = reinterpret_cast<char*>(chunk);
  const std::size_t pages = EntityPool::kEntitiesPerChunk * sizeof(FiberEntity) / page_size;  // Whole ones.
  std::size_t run = 0;  // pages before `page` that may go
  for (std::size_t page = 0; page <= pages; ++page) {
    bool all_free = page < pages;
    if (all_free) {
      const std::size_t last = ((page + 1) * page_size - 1) / sizeof(FiberEntity);
      for (std::size_t i = page * page_size / sizeof(FiberEntity); all_free && i <= last; ++i) all_free = free[i];
    }
    if (all_free) {
      ++run;
    } else if (run != 0) {
      (void)::madvise(begin + (page - run) * page_size, run * page_size, MADV_DONTNEED);
      run = 0;
    }
  }
}

}  // namespace

std::size_t EntityPool::ChunkCount() {
  return TheCentral().chunk_count.load(std::memory_order_acquire);  // Pairs with the release in Grow().
}

FiberEntity* EntityPool::ChunkAt(std::size_t index) { return weft_fiber_chunks[index]; }

std::size_t EntityPool::Trim() {
  for (std::size_t home = 0; home < kMaxHomes; ++home) Trim(static_cast<Home>(home));
  return 0;
}

void EntityPool::Trim(Home home) {
  CentralStack& stack = TheCentral().homes[home];
  std::vector<FiberEntity*> free;
  // The home's chunks by address, so that an entity's chunk is found by a search.
  std::vector<std::pair<FiberEntity*, std::uint32_t>> by_address;
  {
    base::SpinLockGuard guard(stack.lock);
    if (stack.free.size() < 2 * kEntitiesPerChunk) return;
  }
  by_address.reserve(ChunkCount());  // Not under the lock.
  {
    base::SpinLockGuard guard(stack.lock);
    free.swap(stack.free);  // Others add cold chunks or new ones meanwhile; we are rare.
    for (std::uint32_t c : stack.chunks) by_address.emplace_back(ChunkAt(c), c);
  }
  const std::size_t chunks = ChunkCount();
  std::sort(by_address.begin(), by_address.end());
  auto chunk_of = [&](FiberEntity* fiber) {
    return std::prev(std::upper_bound(by_address.begin(), by_address.end(), fiber,
                                      [](FiberEntity* f, const auto& chunk) { return f < chunk.first; }))
        ->second;
  };
  std::vector<std::uint32_t> free_in(chunks, 0);
  std::vector<ChunkMap> map(chunks);
  for (FiberEntity* fiber : free) {
    const std::uint32_t c = chunk_of(fiber);
    ++free_in[c];
    map[c].set(static_cast<std::size_t>(fiber - ChunkAt(c)));
  }
  std::vector<std::uint32_t> cold;
  // One wholly free chunk stays warm.
  bool kept_one = false;
  for (const auto& [chunk, c] : by_address) {
    if (free_in[c] != kEntitiesPerChunk) {
      DiscardFreePages(chunk, map[c]);
      continue;
    }
    if (!kept_one) {
      kept_one = true;
      free_in[c] = 0;
      continue;
    }
    // The pages read as zeroes afterwards: free entities (EP1). A failure leaves them as they are, which is as good.
    (void)::madvise(chunk, kChunkBytes, MADV_DONTNEED);
    cold.push_back(c);
  }
  std::erase_if(free, [&](FiberEntity* fiber) { return free_in[chunk_of(fiber)] == kEntitiesPerChunk; });
  free.shrink_to_fit();
  base::SpinLockGuard guard(stack.lock);
  stack.cold_chunks.insert(stack.cold_chunks.end(), cold.begin(), cold.end());
  if (stack.free.empty()) {
    stack.free.swap(free);
  } else {
    stack.free.insert(stack.free.end(), free.begin(), free.end());
  }
}

void DiscardFiber(FiberEntity* fiber) noexcept {
  fiber->callable_(fiber, FiberEntity::CallableOp::kDestroy);
  if (fiber->execution_context != nullptr) fiber_hooks.release_execution_context(fiber);
  AbandonFiber(fiber);
}

void AbandonFiber(FiberEntity* fiber) noexcept {
  fiber->execution_context = nullptr;
  delete[] std::exchange(fiber->name_, nullptr);
  fiber->stack_size_ = 0;
  fiber->guard_size_ = 0;
  fiber->on_exit_ = nullptr;
  fiber->on_exit_arg_ = nullptr;
  fiber->state_.OnDiscarded();
  EntityPool::GiveBack(fiber);
  TellDrainWaiter();  // It may have been counted.
}

}  // namespace weft::scheduling_group
