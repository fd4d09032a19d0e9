// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/node_arena.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bitset>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/queue/run_queue.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::scheduling_group {

// --- Chunks ---

constinit FiberEntity* weft_fiber_chunks[kMaxEntityChunks]{};

namespace {

constinit base::SpinLock table_lock;
constinit std::atomic<std::size_t> chunk_count{0};  // written under the lock

}  // namespace

WEFT_COLD EntityChunk* MakeEntityChunk(int node) {
  constexpr std::size_t kBytes = kEntityChunkBytes + sizeof(EntityChunk);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  WEFT_CHECK(RunQueue::FitBelow(static_cast<std::byte*>(memory) + kBytes), "EntityPool: the kernel gives memory at ",
             memory, ", an address of more than 48 bits; run queues have no room for these");
  if (const std::error_code error = numa::BindMemory(memory, kBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "fibers of node ", node, " are kept elsewhere: ", error.message());
  }
  auto* entities = static_cast<FiberEntity*>(memory);  // Zeroes are free entities (EP1).
  auto* chunk = new (static_cast<std::byte*>(memory) + kEntityChunkBytes) EntityChunk(entities);
  {
    base::SpinLockGuard guard(table_lock);
    const std::size_t count = chunk_count.load(std::memory_order_relaxed);  // Written under the lock only.
    if (count < kMaxEntityChunks) {
      weft_fiber_chunks[count] = entities;
#if WEFT_ASAN
      __lsan_register_root_region(memory, kBytes);  // Memory that only a fiber or a pack refers to is not a leak.
#endif
      // release: publishes the table entry. Pairs with the acquire in EntityChunkCount().
      chunk_count.store(count + 1, std::memory_order_release);
      return chunk;
    }
  }
  ::munmap(memory, kBytes);
  return nullptr;
}

std::size_t EntityChunkCount() {
  return chunk_count.load(std::memory_order_acquire);  // Pairs with the release in MakeEntityChunk().
}

FiberEntity* EntityChunkAt(std::size_t index) { return weft_fiber_chunks[index]; }

// --- NodeArena ---

namespace {

// Never destroyed, since threads may end after static destructors.
constinit NodeArena arenas[kMaxNodeArenas];
constinit base::SpinLock arenas_lock;
constinit std::size_t arena_count WEFT_GUARDED_BY(arenas_lock) = 1;

}  // namespace

void NodeArena::AddEntities(const EntityChunk& chunk) {
  for (std::size_t i = kEntitiesPerChunk; i-- > 0;) {
    FiberEntity* entity = &chunk.entities[i];
    free_.Push(&entity, 1);
  }
}

std::size_t NodeArena::TakeFree(FiberEntity** entities, std::size_t n) {
  if (free_.size() < n && cold_chunks_ != nullptr) {
    EntityChunk* chunk = std::exchange(cold_chunks_, cold_chunks_->next_cold);
    AddEntities(*chunk);
  }
  return free_.Pop(entities, n);
}

std::size_t NodeArena::Take(FiberEntity** entities, std::size_t n) {
  {
    base::SpinLockGuard guard(lock_);
    if (const std::size_t taken = TakeFree(entities, n); taken != 0) return taken;
  }
  EntityChunk* chunk = MakeEntityChunk(node());
  base::SpinLockGuard guard(lock_);
  if (chunk != nullptr) {
    chunk->next = std::exchange(chunks_, chunk);
    ++chunk_count_;
    free_.AddBlock(&chunk->block);
    for (EntityPack& pack : chunk->packs) pack.next = std::exchange(empty_, &pack);
    AddEntities(*chunk);
  }
  return TakeFree(entities, n);
}

void NodeArena::GiveBack(FiberEntity* const* entities, std::size_t n) {
  base::SpinLockGuard guard(lock_);
  free_.Push(entities, n);
}

EntityPack* NodeArena::Fill(EntityPack* empty, std::size_t* count) {
  {
    base::SpinLockGuard guard(lock_);
    if (EntityPack* const full = full_) [[likely]] {
      full_ = full->next;
      empty->next = std::exchange(empty_, empty);
      *count = EntityPack::kSize;
      return full;
    }
  }
  *count = Take(empty->entities, EntityPack::kSize);
  return empty;
}

EntityPack* NodeArena::Flush(EntityPack* full) {
  base::SpinLockGuard guard(lock_);
  EntityPack* const empty = empty_;
  if (empty == nullptr) [[unlikely]] {
    free_.Push(full->entities, EntityPack::kSize);
    return full;
  }
  empty_ = empty->next;
  full->next = std::exchange(full_, full);
  return empty;
}

EntityPack* NodeArena::TakeEmptyPack() {
  {
    base::SpinLockGuard guard(lock_);
    if (empty_ != nullptr) return std::exchange(empty_, empty_->next);
  }
  return new (std::nothrow) EntityPack;
}

void NodeArena::GiveEmptyPack(EntityPack* pack) {
  base::SpinLockGuard guard(lock_);
  pack->next = std::exchange(empty_, pack);
}

WEFT_COLD void NodeArena::DrainPacks() {
  for (bool drained = false; !drained;) {  // One at a time: others wait for the lock.
    base::SpinLockGuard guard(lock_);
    drained = full_ == nullptr;
    if (drained) break;
    EntityPack* const pack = std::exchange(full_, full_->next);
    free_.Push(pack->entities, EntityPack::kSize);
    pack->next = std::exchange(empty_, pack);
  }
}

NodeArena::Snapshot NodeArena::TakeSnapshot() {
  base::SpinLockGuard guard(lock_);
  return {.free = free_.size(), .chunk_count = chunk_count_, .chunks = chunks_};
}

std::size_t NodeArena::TakeOfSnapshot(const Snapshot& snapshot, FiberEntity** entities, std::size_t n) {
  base::SpinLockGuard guard(lock_);
  if (chunk_count_ != snapshot.chunk_count) return 0;
  return free_.Pop(entities, n);
}

void NodeArena::AddColdChunk(EntityChunk* chunk) {
  base::SpinLockGuard guard(lock_);
  chunk->next_cold = std::exchange(cold_chunks_, chunk);
}

NodeArena& NodeArenaAt(NodeArenaIndex index) { return arenas[index]; }

NodeArenaIndex NodeArenaOn(int node) {
  if (node < 0) return kAnyNodeArena;
  base::SpinLockGuard guard(arenas_lock);
  for (std::size_t index = 1; index < arena_count; ++index) {
    if (arenas[index].node() == node) return static_cast<NodeArenaIndex>(index);
  }
  if (arena_count == kMaxNodeArenas) return kAnyNodeArena;
  arenas[arena_count].set_node(node);
  return static_cast<NodeArenaIndex>(arena_count++);
}

// --- TrimArena ---

namespace {

// Which entities of a chunk we hold.
using ChunkMap = std::bitset<kEntitiesPerChunk>;

// Pointers moved per critical section.
constexpr std::size_t kTrimPortion = 1024;

// Gives back the pages of a chunk that hold free entities only. Else a few entities in caches would keep whole chunks.
WEFT_COLD void DiscardFreePages(FiberEntity* chunk, const ChunkMap& free) {
  const auto page_size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  char* const begin = reinterpret_cast<char*>(chunk);
  const std::size_t pages = kEntitiesPerChunk * sizeof(FiberEntity) / page_size;  // Whole ones.
  std::size_t run = 0;                                                            // pages before `page` to give back
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

// Allocates all its memory before it takes the first entity, since entities taken must be given back.
class ArenaTrimmer {
 public:
  ArenaTrimmer(NodeArena& arena, const NodeArena::Snapshot& snapshot);

  // In this order.
  void TakeFreeEntities();
  void DiscardMemory();
  void GiveBack();

 private:
  struct OfChunk {
    EntityChunk* chunk;
    std::uint32_t free = 0;
    ChunkMap map;
  };

  OfChunk& ChunkOf(const FiberEntity* fiber) {
    return *std::prev(std::upper_bound(chunks_.begin(), chunks_.end(), fiber,
                                       [](const FiberEntity* f, const OfChunk& c) { return f < c.chunk->entities; }));
  }

  NodeArena& arena_;
  const NodeArena::Snapshot snapshot_;
  std::vector<OfChunk> chunks_;  // Sorted by address, to find an entity's chunk by binary search.
  std::vector<FiberEntity*> free_;
};

WEFT_COLD ArenaTrimmer::ArenaTrimmer(NodeArena& arena, const NodeArena::Snapshot& snapshot)
    : arena_(arena), snapshot_(snapshot) {
  chunks_.reserve(snapshot.chunk_count);
  free_.resize(snapshot.free);
  for (EntityChunk* chunk = snapshot.chunks; chunk != nullptr; chunk = chunk->next) {
    chunks_.push_back({.chunk = chunk, .free = 0, .map = {}});
  }
  std::sort(chunks_.begin(), chunks_.end(),
            [](const auto& a, const auto& b) { return a.chunk->entities < b.chunk->entities; });
}

// Other threads push and pop meanwhile; it stops when one adds a chunk, which is not in the snapshot.
WEFT_COLD void ArenaTrimmer::TakeFreeEntities() {
  std::size_t taken = 0;
  while (taken < free_.size()) {
    const std::size_t n = arena_.TakeOfSnapshot(snapshot_, &free_[taken], std::min(kTrimPortion, free_.size() - taken));
    if (n == 0) break;
    taken += n;
  }
  free_.resize(taken);
  for (FiberEntity* fiber : free_) {
    OfChunk& of = ChunkOf(fiber);
    ++of.free;
    of.map.set(static_cast<std::size_t>(fiber - of.chunk->entities));
  }
}

WEFT_COLD void ArenaTrimmer::DiscardMemory() {
  // One wholly free chunk stays warm.
  bool kept_one = false;
  for (OfChunk& of : chunks_) {
    if (of.free != kEntitiesPerChunk) {
      DiscardFreePages(of.chunk->entities, of.map);
    } else if (!kept_one) {
      kept_one = true;
      of.free = 0;
    } else {
      // The pages then read as zeroes: free entities (EP1). If it fails they stay as they are, which is as good.
      (void)::madvise(of.chunk->entities, kEntityChunkBytes, MADV_DONTNEED);
    }
  }
}

WEFT_COLD void ArenaTrimmer::GiveBack() {
  std::erase_if(free_, [&](FiberEntity* fiber) { return ChunkOf(fiber).free == kEntitiesPerChunk; });
  for (std::size_t left = free_.size(); left != 0;) {
    const std::size_t n = std::min(kTrimPortion, left);
    left -= n;
    arena_.GiveBack(&free_[left], n);
  }
  for (const OfChunk& of : chunks_) {
    if (of.free == kEntitiesPerChunk) arena_.AddColdChunk(of.chunk);
  }
}

}  // namespace

WEFT_COLD void TrimArena(NodeArena& arena) {
  arena.DrainPacks();
  const NodeArena::Snapshot snapshot = arena.TakeSnapshot();
  if (snapshot.free < 2 * kEntitiesPerChunk) return;
  ArenaTrimmer trimmer(arena, snapshot);
  trimmer.TakeFreeEntities();
  trimmer.DiscardMemory();
  trimmer.GiveBack();
}

}  // namespace weft::scheduling_group
