// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_trim.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

namespace weft::scheduling_group {
namespace {

// Which entities of a chunk we hold.
using ChunkMap = std::bitset<kEntitiesPerChunk>;

// Pointers moved per critical section.
constexpr std::size_t kTrimPortion = 1024;

// Gives back the pages of a chunk that hold free entities only. Else a few entities in caches would keep whole chunks.
void DiscardFreePages(FiberEntity* chunk, const ChunkMap& free) {
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

ArenaTrimmer::ArenaTrimmer(NodeArena& arena, const NodeArena::Snapshot& snapshot) : arena_(arena), snapshot_(snapshot) {
  chunks_.reserve(snapshot.chunk_count);
  free_.resize(snapshot.free);
  for (EntityChunk* chunk = snapshot.chunks; chunk != nullptr; chunk = chunk->next) {
    chunks_.push_back({.chunk = chunk, .free = 0, .map = {}});
  }
  std::sort(chunks_.begin(), chunks_.end(),
            [](const auto& a, const auto& b) { return a.chunk->entities < b.chunk->entities; });
}

// Other threads push and pop meanwhile; it stops when one adds a chunk, which is not in the snapshot.
void ArenaTrimmer::TakeFreeEntities() {
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

void ArenaTrimmer::DiscardMemory() {
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

void ArenaTrimmer::GiveBack() {
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

void TrimArena(NodeArena& arena) {
  const NodeArena::Snapshot snapshot = arena.TakeSnapshot();
  if (snapshot.free < 2 * kEntitiesPerChunk) return;
  ArenaTrimmer trimmer(arena, snapshot);
  trimmer.TakeFreeEntities();
  trimmer.DiscardMemory();
  trimmer.GiveBack();
}

}  // namespace weft::scheduling_group
