// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdlib>
#include <new>
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
#include "weft/scheduling_group/entity_stack.h"
#include "weft/scheduling_group/run_queue.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kMaxChunks = std::size_t{1} << 16;  // About 89 million fibers alive.
constexpr std::size_t kCacheSize = 128;                   // 24 KiB of entities: half an L1 data cache.
constexpr std::size_t kExchange = kCacheSize / 2;
constexpr std::uint64_t kIdBlock = 4096;  // One shared increment per so many fibers of a thread.

// A thread's free entities of one arena.
struct Shelf {
  FiberEntity* free[kCacheSize];
  std::size_t count = 0;
};

// What one thread holds. Its counters are written by that thread only.
struct ThreadCache {
  Shelf anywhere;                           // of arena kAnywhere
  Shelf* others[EntityPool::kMaxArenas]{};  // by arena; made when first used
  std::atomic<std::uint64_t> taken{0};
  std::atomic<std::uint64_t> given_back{0};
  std::uint64_t next_id = 0;  // never reused; 0 is never given
  std::uint64_t end_of_ids = 0;
  ThreadCache* next = nullptr;  // in Central::caches

  ~ThreadCache() {
    for (Shelf* shelf : others) delete shelf;
  }
};

using FreeStack = EntityStack<EntityPool::kEntitiesPerChunk>;

// What is kept of a chunk, behind its entities. Never freed.
struct Chunk {
  explicit Chunk(FiberEntity* chunk) : entities(chunk) {}

  FreeStack::Block block;  // as many pointers as it has entities
  FiberEntity* const entities;
  Chunk* next = nullptr;       // of the arena; set before it is in the list
  Chunk* next_cold = nullptr;  // under the arena's lock
};

// What all threads share of one arena.
struct alignas(base::kCacheLineSize) CentralStack {
  base::SpinLock lock;
  FreeStack free WEFT_GUARDED_BY(lock);
  Chunk* cold_chunks WEFT_GUARDED_BY(lock) = nullptr;  // wholly free, pages given back
  Chunk* chunks WEFT_GUARDED_BY(lock) = nullptr;       // all of the arena
  std::size_t chunk_count WEFT_GUARDED_BY(lock) = 0;
  int node = -1;  // set by ArenaOn() before it returns the arena

  void AddEntities(const Chunk& chunk) WEFT_REQUIRES(lock);
  void Refill(Shelf& shelf) WEFT_REQUIRES(lock);
};

struct Central {
  CentralStack arenas[EntityPool::kMaxArenas];
  base::SpinLock lock;
  std::size_t arena_count WEFT_GUARDED_BY(lock) = 1;
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

// Trivial, for speed and to the end of the thread. A thread whose cache has been returned gets a new one if it needs
// it.
constinit thread_local ThreadCache* tls_cache = nullptr;

void ReturnShelf(const Shelf& shelf, CentralStack& arena) {
  base::SpinLockGuard guard(arena.lock);
  arena.free.Push(shelf.free, shelf.count);
}

void ReturnCache(ThreadCache* cache) {
  Central& central = TheCentral();
  ReturnShelf(cache->anywhere, central.arenas[EntityPool::kAnywhere]);
  for (std::size_t arena = 0; arena < EntityPool::kMaxArenas; ++arena) {
    if (cache->others[arena] != nullptr) ReturnShelf(*cache->others[arena], central.arenas[arena]);
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
  auto* cache = new (std::nothrow) ThreadCache;
  if (cache == nullptr) return nullptr;
  (void)at_thread_end.Arm(cache);  // Else it stays, with its counts and what it holds.
  SetCacheOfThread(cache);
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  cache->next = central.caches;
  central.caches = cache;
  return cache;
}

// Never inlined: a fiber that migrates must not reuse an address of its old thread. nullptr: there is no memory.
WEFT_TLS_ACCESSOR ThreadCache* LocalCache() {
  ThreadCache* cache = tls_cache;
  return cache != nullptr ? cache : MakeThreadCache();
}

void Count(std::atomic<std::uint64_t>& counter, std::memory_order order) {
  counter.store(counter.load(std::memory_order_relaxed) + 1, order);  // Only this thread writes it.
}

WEFT_NOINLINE Shelf* MakeShelf(ThreadCache& cache, EntityPool::Arena arena) {
  return cache.others[arena] = new (std::nothrow) Shelf;
}

// nullptr: there is no memory.
Shelf* ShelfOf(ThreadCache& cache, EntityPool::Arena arena) {
  if (arena == EntityPool::kAnywhere) [[likely]] {
    return &cache.anywhere;
  }
  Shelf* shelf = cache.others[arena];
  return shelf != nullptr ? shelf : MakeShelf(cache, arena);
}

// A new chunk on `node`, entered into the table; nullptr: there is no memory or no room in the table. Makes system
// calls and touches new memory: not under a lock.
Chunk* MakeChunk(Central& central, int node) {
  constexpr std::size_t kBytes = EntityPool::kChunkBytes + sizeof(Chunk);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  WEFT_CHECK(RunQueue::FitBelow(static_cast<std::byte*>(memory) + kBytes), "EntityPool: the kernel gives memory at ",
             memory, ", an address of more than 48 bits; run queues have no room for these");
  if (const std::error_code error = numa::BindMemory(memory, kBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "fibers of node ", node, " are kept elsewhere: ", error.message());
  }
  auto* entities = static_cast<FiberEntity*>(memory);  // Zeroes are free entities (EP1).
  auto* chunk = new (static_cast<std::byte*>(memory) + EntityPool::kChunkBytes) Chunk(entities);
  {
    base::SpinLockGuard guard(central.lock);
    const std::size_t count = central.chunk_count.load(std::memory_order_relaxed);  // Written under the lock only.
    if (count < kMaxChunks) {
      weft_fiber_chunks[count] = entities;
#if WEFT_ASAN
      __lsan_register_root_region(memory, EntityPool::kChunkBytes);  // What only a fiber refers to is no leak.
#endif
      // release: publishes the table entry. Pairs with the acquire in ChunkCount().
      central.chunk_count.store(count + 1, std::memory_order_release);
      return chunk;
    }
  }
  ::munmap(memory, kBytes);
  return nullptr;
}

void CentralStack::AddEntities(const Chunk& chunk) {
  for (std::size_t i = EntityPool::kEntitiesPerChunk; i-- > 0;) {
    FiberEntity* entity = &chunk.entities[i];
    free.Push(&entity, 1);
  }
}

void CentralStack::Refill(Shelf& shelf) {
  if (free.size() < kExchange && cold_chunks != nullptr) {
    Chunk* chunk = std::exchange(cold_chunks, cold_chunks->next_cold);
    AddEntities(*chunk);
  }
  shelf.count = free.Pop(shelf.free, kExchange);
}

// The empty shelf, from the central stack, a cold chunk or a new one.
WEFT_NOINLINE bool Refill(Shelf& shelf, EntityPool::Arena arena) {
  Central& central = TheCentral();
  CentralStack& stack = central.arenas[arena];
  {
    base::SpinLockGuard guard(stack.lock);
    stack.Refill(shelf);
  }
  if (shelf.count != 0) return true;
  Chunk* chunk = MakeChunk(central, stack.node);
  base::SpinLockGuard guard(stack.lock);
  if (chunk != nullptr) {
    chunk->next = std::exchange(stack.chunks, chunk);
    ++stack.chunk_count;
    stack.free.AddBlock(&chunk->block);
    stack.AddEntities(*chunk);
  }
  stack.Refill(shelf);
  return shelf.count != 0;
}

WEFT_NOINLINE void Flush(Shelf& shelf, EntityPool::Arena arena) {
  CentralStack& stack = TheCentral().arenas[arena];
  base::SpinLockGuard guard(stack.lock);
  // The coldest half; the most recently used stay.
  stack.free.Push(shelf.free, kExchange);
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

EntityPool::Arena EntityPool::ArenaOn(int node) {
  if (node < 0) return kAnywhere;
  Central& central = TheCentral();
  base::SpinLockGuard guard(central.lock);
  for (std::size_t arena = 1; arena < central.arena_count; ++arena) {
    if (central.arenas[arena].node == node) return static_cast<Arena>(arena);
  }
  if (central.arena_count == kMaxArenas) return kAnywhere;
  central.arenas[central.arena_count].node = node;
  return static_cast<Arena>(central.arena_count++);
}

namespace {

WEFT_NOINLINE WEFT_COLD FiberEntity* RefuseToTake() {
  try {
    WEFT_LOG_EVERY_SECOND(WARNING, "EntityPool: no memory for another fiber, ", EntityPool::LiveFibers(), " are alive");
  } catch (const std::bad_alloc&) {
    // Nor for a line about it.
  }
  return nullptr;
}

// By a thread that has no cache, or no shelf, and no memory for one.
WEFT_NOINLINE WEFT_COLD void GiveBackWithoutShelf(FiberEntity* fiber, EntityPool::Arena arena) {
  Central& central = TheCentral();
  {
    base::SpinLockGuard guard(central.arenas[arena].lock);
    central.arenas[arena].free.Push(&fiber, 1);
  }
  base::SpinLockGuard guard(central.lock);
  ++central.given_back_by_the_gone;
}

}  // namespace

FiberEntity* EntityPool::Take(Arena arena) {
  ThreadCache* cache = LocalCache();
  Shelf* shelf = cache != nullptr ? ShelfOf(*cache, arena) : nullptr;
  if (shelf == nullptr || (shelf->count == 0 && !Refill(*shelf, arena))) [[unlikely]] {
    return RefuseToTake();
  }
  // relaxed: what carries the fiber to its worker carries this too (EP3).
  Count(cache->taken, std::memory_order_relaxed);
  FiberEntity* fiber = shelf->free[--shelf->count];
  fiber->arena_ = arena;
  fiber->id_.store(NextFiberId(*cache), std::memory_order_relaxed);  // For reports; the queue carries it.
  return fiber;
}

void EntityPool::GiveBack(FiberEntity* fiber) noexcept {
  ThreadCache* cache = LocalCache();
  const Arena arena = fiber->arena_;
  Shelf* shelf = cache != nullptr ? ShelfOf(*cache, arena) : nullptr;
  if (shelf == nullptr) [[unlikely]] {
    return GiveBackWithoutShelf(fiber, arena);
  }
  if (shelf->count == kCacheSize) Flush(*shelf, arena);
  shelf->free[shelf->count++] = fiber;
  // release: who counts this end counts the beginning too (EP3). Pairs with the acquire in LiveFibers().
  Count(cache->given_back, std::memory_order_release);
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
  return TheCentral().chunk_count.load(std::memory_order_acquire);  // Pairs with the release in MakeChunk().
}

FiberEntity* EntityPool::ChunkAt(std::size_t index) { return weft_fiber_chunks[index]; }

std::size_t EntityPool::Trim() noexcept {
  try {
    for (std::size_t arena = 0; arena < kMaxArenas; ++arena) Trim(static_cast<Arena>(arena));
  } catch (const std::bad_alloc&) {
    // Another time.
  }
  return 0;
}

namespace {

// What Trim() works with. All of its memory is there before the first entity is taken out of the stack, which must come
// back.
struct TrimmedArena {
  struct OfChunk {
    Chunk* chunk;
    std::uint32_t free = 0;
    ChunkMap map;
  };

  std::vector<OfChunk> chunks;  // By address, so that an entity's chunk is found by a search.
  std::vector<FiberEntity*> free;

  OfChunk& ChunkOf(const FiberEntity* fiber) {
    return *std::prev(std::upper_bound(chunks.begin(), chunks.end(), fiber,
                                       [](const FiberEntity* f, const OfChunk& c) { return f < c.chunk->entities; }));
  }
};

// Pointers that are moved in one section under the lock.
constexpr std::size_t kTrimPortion = 1024;

}  // namespace

void EntityPool::Trim(Arena arena) {
  CentralStack& stack = TheCentral().arenas[arena];
  TrimmedArena trimmed;
  std::size_t size = 0;
  std::size_t chunk_count = 0;
  Chunk* chunk = nullptr;
  {
    base::SpinLockGuard guard(stack.lock);
    size = stack.free.size();
    if (size < 2 * kEntitiesPerChunk) return;
    chunk = stack.chunks;
    chunk_count = stack.chunk_count;
  }
  trimmed.chunks.reserve(chunk_count);
  trimmed.free.resize(size);
  for (; chunk != nullptr; chunk = chunk->next) trimmed.chunks.push_back({.chunk = chunk, .free = 0, .map = {}});
  std::sort(trimmed.chunks.begin(), trimmed.chunks.end(),
            [](const auto& a, const auto& b) { return a.chunk->entities < b.chunk->entities; });

  // From the top, the most recently freed first. Others push and pop meanwhile; when they add a chunk, which we do not
  // know, we have taken enough.
  std::size_t taken = 0;
  while (taken < size) {
    base::SpinLockGuard guard(stack.lock);
    if (stack.chunk_count != chunk_count) break;
    const std::size_t n = stack.free.Pop(&trimmed.free[taken], std::min(kTrimPortion, size - taken));
    if (n == 0) break;
    taken += n;
  }
  trimmed.free.resize(taken);
  for (FiberEntity* fiber : trimmed.free) {
    TrimmedArena::OfChunk& of = trimmed.ChunkOf(fiber);
    ++of.free;
    of.map.set(static_cast<std::size_t>(fiber - of.chunk->entities));
  }
  // One wholly free chunk stays warm.
  bool kept_one = false;
  for (TrimmedArena::OfChunk& of : trimmed.chunks) {
    if (of.free != kEntitiesPerChunk) {
      DiscardFreePages(of.chunk->entities, of.map);
    } else if (!kept_one) {
      kept_one = true;
      of.free = 0;
    } else {
      // The pages read as zeroes afterwards: free entities (EP1). A failure leaves them as they are, which is as good.
      (void)::madvise(of.chunk->entities, kChunkBytes, MADV_DONTNEED);
    }
  }
  std::erase_if(trimmed.free, [&](FiberEntity* fiber) { return trimmed.ChunkOf(fiber).free == kEntitiesPerChunk; });
  for (std::size_t left = trimmed.free.size(); left != 0;) {
    const std::size_t n = std::min(kTrimPortion, left);
    left -= n;
    base::SpinLockGuard guard(stack.lock);
    stack.free.Push(&trimmed.free[left], n);
  }
  for (const TrimmedArena::OfChunk& of : trimmed.chunks) {
    if (of.free != kEntitiesPerChunk) continue;
    base::SpinLockGuard guard(stack.lock);
    of.chunk->next_cold = std::exchange(stack.cold_chunks, of.chunk);
  }
}

}  // namespace weft::scheduling_group
