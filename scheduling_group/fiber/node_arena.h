// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// NodeArena: the free entities of one NUMA node that all threads share: full packs, a central stack, and its chunks.
//
// Threads exchange packs of 64 pointers with it (entity_pool.h), so they take its lock seldom, and hold it for two
// cache lines: a full pack changes hands for an empty one, whole. Only if there is none the 64 pointers are copied,
// from or to the central stack: at the beginning, and after a trim. A chunk brings packs for its entities, and a thread
// two, which it leaves behind.
//
//     Fill()   a full pack for an empty one; else fills it from the stack, a cold chunk or a new chunk
//     Flush()  an empty pack for a full one; else empties it into the stack
//
// After a burst TrimArena() puts the packs' entities into the stack and makes wholly free chunks cold: they leave the
// stack, and are used before a new one is made.
//
// A chunk has the memory of some 1,300 fibers' control blocks, and is never unmapped. A global table lists all chunks
// for ever, so that a debugger finds every fiber by walking it, even in a core dump. Zeroes are a free entity (EP1 in
// entity_pool.h).
//
// The central stack (EntityStack) has pointers to the free entities, the most recently freed on top. Push() never
// allocates: each chunk brings a block with room for as many pointers. Nothing is written into the entities, so memory
// given back to the system stays there.
//
//     bottom                                  top_
//     | block: full | <-> | block: full | <-> | block: in_top_ | <-> | block: empty | <-> ...
//
// Invariants
//   NA1  A free entity of the arena is in exactly one place: a full pack, the stack, a cold chunk or a thread (EP2).
//   NA2  The packs, the stack and the cold chunks hold entities of the arena's own chunks only (EP4).
//   NA3  Fill() and Flush() leave the number of the arena's packs as it is. So it has an empty one for each full one
//        that was taken.
//   ES1  The blocks below top_ are full, those above are empty.
//   ES2  There are never more pointers than room, since the owner never pushes an entity that is in the stack.
//
// Any thread, but for the stack: under the arena's lock. That is a leaf: under it only pointers move, and no memory is
// mapped. Rejected for the stack: a list linked through the entities (it writes a line of each, and taking 64 of them
// is 64 cache misses one after the other, under the lock); a vector (it allocates when a fiber ends); the stack alone,
// without packs (the lock was held for nine lines that may come from other cores, and all groups of a node wait for it:
// bench/results/scaling.md); packs from the heap (they lie between what came with the fibers, and keep its memory from
// the system); an arena for each group (each thread would keep 128 free fibers of each).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_NODE_ARENA_H_
#define WEFT_SCHEDULING_GROUP_FIBER_NODE_ARENA_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

template <std::size_t kBlockSize>
class EntityStack {
 public:
  struct Block {
    Block* below = nullptr;
    Block* above = nullptr;
    FiberEntity* entities[kBlockSize]{};
  };

  EntityStack() = default;
  EntityStack(const EntityStack&) = delete;
  EntityStack& operator=(const EntityStack&) = delete;

  std::size_t size() const { return size_; }

  // The block stays for ever.
  void AddBlock(Block* block) {
    if (top_ == nullptr) {
      top_ = last_ = block;
      return;
    }
    block->below = last_;
    last_->above = block;
    last_ = block;
  }

  // The last one comes on top. There must be room (ES2).
  void Push(FiberEntity* const* entities, std::size_t n) {
    size_ += n;
    while (n != 0) {
      if (in_top_ == kBlockSize) {
        WEFT_CHECK(top_->above != nullptr, "EntityStack: an entity was given back twice");
        top_ = top_->above;
        in_top_ = 0;
      }
      const std::size_t now = std::min(n, kBlockSize - in_top_);
      std::copy_n(entities, now, top_->entities + in_top_);
      in_top_ += now;
      entities += now;
      n -= now;
    }
  }

  // Pops up to `n`, in the order in which they were pushed. Returns how many.
  std::size_t Pop(FiberEntity** entities, std::size_t n) {
    n = std::min(n, size_);
    size_ -= n;
    for (std::size_t left = n; left != 0;) {
      if (in_top_ == 0) {
        top_ = top_->below;
        in_top_ = kBlockSize;
      }
      const std::size_t now = std::min(left, in_top_);
      in_top_ -= now;
      left -= now;
      std::copy_n(top_->entities + in_top_, now, entities + left);
    }
    return n;
  }

 private:
  Block* top_ = nullptr;
  Block* last_ = nullptr;
  std::size_t in_top_ = 0;
  std::size_t size_ = 0;
};

inline constexpr std::size_t kEntityChunkBytes = 256 * 1024;
inline constexpr std::size_t kEntitiesPerChunk = kEntityChunkBytes / sizeof(FiberEntity);

// Room for free entities, which changes hands whole.
struct EntityPack {
  static constexpr std::size_t kSize = 64;
  EntityPack* next = nullptr;  // of the arena
  FiberEntity* entities[kSize];
};

// The record of a chunk, which lies behind its entities. Never freed.
struct EntityChunk {
  explicit EntityChunk(FiberEntity* chunk) : entities(chunk) {}

  EntityStack<kEntitiesPerChunk>::Block block;                  // as many pointers as it has entities
  EntityPack packs[kEntitiesPerChunk / EntityPack::kSize + 1];  // the same, for when they change hands
  FiberEntity* const entities;
  EntityChunk* next = nullptr;       // of the arena; set before it is in the list
  EntityChunk* next_cold = nullptr;  // under the arena's lock
};

// A new chunk on `node` (-1: any), entered into the table; nullptr: no memory, or no room in the table. Not to be
// called under a lock: it makes system calls and touches new memory.
EntityChunk* MakeEntityChunk(int node);

// The table: how many chunks there are, and the entities of each.
std::size_t EntityChunkCount();
FiberEntity* EntityChunkAt(std::size_t index);

// The table itself, for debuggers (group/gdb_layout.h): nullptr behind the last chunk. Hidden: not in libweft.so's ABI.
inline constexpr std::size_t kMaxEntityChunks = std::size_t{1} << 16;  // About 89 million fibers alive.
extern __attribute__((visibility("hidden"))) FiberEntity* weft_fiber_chunks[kMaxEntityChunks];

class alignas(base::kCacheLineSize) NodeArena {
 public:
  constexpr NodeArena() = default;
  NodeArena(const NodeArena&) = delete;
  NodeArena& operator=(const NodeArena&) = delete;

  // The NUMA node of its chunks; -1: any. Set before another thread uses the arena.
  int node() const { return node_plus_one_ - 1; }
  void set_node(int node) { node_plus_one_ = node + 1; }

  // For an empty pack: one with `*count` entities. 0: there is no memory.
  EntityPack* Fill(EntityPack* empty, std::size_t* count) WEFT_EXCLUDES(lock_);
  // For a full pack: an empty one. Needs no memory.
  EntityPack* Flush(EntityPack* full) WEFT_EXCLUDES(lock_);
  // A thread begins and ends. nullptr: there is no memory.
  EntityPack* TakeEmptyPack() WEFT_EXCLUDES(lock_);
  void GiveEmptyPack(EntityPack* pack) WEFT_EXCLUDES(lock_);

  // Takes up to `n` entities from the stack, a cold chunk or a new chunk. Returns how many; 0: there is no memory.
  std::size_t Take(FiberEntity** entities, std::size_t n) WEFT_EXCLUDES(lock_);
  // The last one comes on top. Needs no memory.
  void GiveBack(FiberEntity* const* entities, std::size_t n) WEFT_EXCLUDES(lock_);

  // --- For TrimArena() ---
  // The packs' entities go into the stack.
  void DrainPacks() WEFT_EXCLUDES(lock_);
  struct Snapshot {
    std::size_t free = 0;  // entities in the stack
    std::size_t chunk_count = 0;
    EntityChunk* chunks = nullptr;  // linked by `next`
  };
  Snapshot TakeSnapshot() WEFT_EXCLUDES(lock_);
  // Takes up to `n` from the top of the stack, or none if a chunk came after the snapshot. Returns how many.
  std::size_t TakeOfSnapshot(const Snapshot& snapshot, FiberEntity** entities, std::size_t n) WEFT_EXCLUDES(lock_);
  // The caller holds all entities of the chunk; they go back with it.
  void AddColdChunk(EntityChunk* chunk) WEFT_EXCLUDES(lock_);

 private:
  void AddEntities(const EntityChunk& chunk) WEFT_REQUIRES(lock_);
  std::size_t TakeFree(FiberEntity** entities, std::size_t n) WEFT_REQUIRES(lock_);

  // What Fill() and Flush() touch comes first: one line.
  base::SpinLock lock_;
  EntityPack* full_ WEFT_GUARDED_BY(lock_) = nullptr;
  EntityPack* empty_ WEFT_GUARDED_BY(lock_) = nullptr;
  EntityStack<kEntitiesPerChunk> free_ WEFT_GUARDED_BY(lock_);
  EntityChunk* cold_chunks_ WEFT_GUARDED_BY(lock_) = nullptr;  // wholly free, pages given back
  EntityChunk* chunks_ WEFT_GUARDED_BY(lock_) = nullptr;       // all of the arena
  std::size_t chunk_count_ WEFT_GUARDED_BY(lock_) = 0;
  int node_plus_one_ = 0;  // All zeroes: the array of arenas takes no room in the program file.
};

// All arenas, by a small number. Number 0 belongs to no node.
using NodeArenaIndex = std::uint8_t;
inline constexpr NodeArenaIndex kAnyNodeArena = 0;
inline constexpr std::size_t kMaxNodeArenas = 64;

NodeArena& NodeArenaAt(NodeArenaIndex index);
// The arena on a NUMA node, always the same. Node -1, and any after kMaxNodeArenas - 1 nodes: kAnyNodeArena.
NodeArenaIndex NodeArenaOn(int node);

// Gives the memory of an arena's free entities back to the system, after a burst of fibers. Wholly free chunks become
// cold. Of a chunk with entities in use or in a thread's cache, the pages without any are given back. Either way the
// memory then reads as zeroes: free entities (EP1).
// Any thread; fibers come and go meanwhile. Without memory to work with it does nothing but throw std::bad_alloc.
void TrimArena(NodeArena& arena);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_NODE_ARENA_H_
