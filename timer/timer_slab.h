// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerSlab: the memory of one shard's timer entries of one width.
//
// Chunks of 2 MiB: a header, then 32764 narrow entries or 16382 wide ones. The first chunk of a slab is made of small
// pages, so that a few timers cost a few pages; from the second on chunks ask for huge pages, which saves a page fault
// per 64 timers (32 wide ones) and most misses of the address translation (bench/timer/timer_benchmark.cc,
// BM_SetAndKill). Within a chunk entries that were freed are used first, the last one first; then those never used, in
// the order of addresses. One chunk of each slab stays warm after a burst.
//
// Invariants
//   TS1  A chunk belongs to one slab and is never unmapped: an id that once was good leads to an entry for ever, whose
//        shard never changes. Slabs live as long as the process (shard_set.h).
//   TS2  A chunk whose memory went back to the OS reads as zeros: generation 0, which no id has. `fresh_generation` in
//        its header, which stays, is above all generations its entries ever had.
//   TS3  An entry is free exactly if its state is kFree. Who allocates one sets the state before it drops the lock.
// Find(), NewChunk(), ReturnMemory(): any thread, no lock. All else: under the lock of the slab's shard.
//
// Rejected: one array of entries with an id per index and no chunks (cannot grow in place); the heap (malloc is
// 20 ns and 8 to 16 bytes of header; memory that goes back to it cannot be looked at by a stale id).
#ifndef WEFT_TIMER_TIMER_SLAB_H_
#define WEFT_TIMER_TIMER_SLAB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/timer/timer_entry.h"

namespace weft::timer {

class TimerShard;

inline constexpr std::size_t kTimerChunkBytes = std::size_t{2} << 20;
inline constexpr std::size_t kPlacesPerChunk = kTimerChunkBytes / sizeof(TimerEntry);  // lines; some are the header
inline constexpr std::size_t kMaxTimerChunks = kMaxPlaces / kPlacesPerChunk;

struct TimerChunk {
  // Places below are the header.
  static constexpr std::uint32_t kFirstPlace = 4;

  // A processor takes a load for one of a line just written if the lower 12 bits of the addresses are equal, and waits.
  // Shards begin at multiples of 256, and what each call writes lies at their beginning: keep away from that (8 ns per
  // call).
  alignas(4 * base::kCacheLineSize) std::byte distance[3 * base::kCacheLineSize];

  TimerEntry* free = nullptr;            // linked by `next`
  TimerChunk* next_with_room = nullptr;  // in TimerSlab::with_room_
  TimerChunk* next_of_slab = nullptr;    // in TimerSlab::chunks_
  TimerShard* shard = nullptr;
  std::uint64_t fresh_generation = 1;  // TS2
  std::uint32_t live = 0;              // entries allocated
  std::uint32_t used = kFirstPlace;    // places below have been allocated before, or are the header
  std::uint32_t number = 0;            // in the directory
  EntryWidth width = EntryWidth::kNarrow;
  bool has_room = true;  // is current_ or in with_room_

  // A wide one begins at an even place.
  TimerEntry* entry(std::size_t place) noexcept { return reinterpret_cast<TimerEntry*>(this) + place; }

  static TimerChunk* Of(TimerEntry* entry) noexcept {
    return reinterpret_cast<TimerChunk*>(reinterpret_cast<std::uintptr_t>(entry) & ~(kTimerChunkBytes - 1));
  }
};
static_assert(sizeof(TimerChunk) == TimerChunk::kFirstPlace * sizeof(TimerEntry));
static_assert(TimerChunk::kFirstPlace % 2 == 0);

// All chunks of the process by number; the place of an id is (number, place in the chunk).
extern std::atomic<TimerChunk*> weft_timer_chunks[kMaxTimerChunks];

class TimerSlab {
 public:
  explicit TimerSlab(EntryWidth width) noexcept : width_(width) {}
  TimerSlab(const TimerSlab&) = delete;
  TimerSlab& operator=(const TimerSlab&) = delete;

  // The entry that `id` is, or was, or nullptr if it never was one. Its generation tells; under the lock it tells for
  // good.
  static TimerEntry* Find(std::uint64_t id) noexcept {
    if (WEFT_UNLIKELY(GenerationOfId(id) == 0)) return nullptr;  // As memory that was never used has.
    const std::uint64_t index = IndexOfId(id);
    // acquire: the chunk's header. Pairs with the release in NewChunk().
    TimerChunk* chunk = weft_timer_chunks[index / kPlacesPerChunk].load(std::memory_order_acquire);
    const std::size_t place = index % kPlacesPerChunk;
    if (WEFT_UNLIKELY(chunk == nullptr || place < TimerChunk::kFirstPlace)) return nullptr;
    // What a user had stored there would be taken for a generation.
    if (WEFT_UNLIKELY(chunk->width == EntryWidth::kWide && place % 2 != 0)) return nullptr;
    return chunk->entry(place);
  }

  static std::uint64_t IdOf(TimerEntry* entry, std::uint64_t generation) noexcept {
    TimerChunk* chunk = TimerChunk::Of(entry);
    return MakeTimerId(generation, chunk->number * kPlacesPerChunk +
                                       static_cast<std::size_t>(entry - reinterpret_cast<TimerEntry*>(chunk)));
  }

  // An entry whose word says kFree with the generation of its new use; nullptr: Adopt() a chunk and try again.
  TimerEntry* Allocate() noexcept {
    TimerChunk* chunk = current_;
    if (WEFT_LIKELY(chunk != nullptr)) {
      if (TimerEntry* entry = chunk->free) {
        chunk->free = static_cast<TimerEntry*>(entry->next);
        __builtin_prefetch(entry->next, 1);
        entry->next = nullptr;
        ++chunk->live;
        return entry;
      }
      if (chunk->used < kPlacesPerChunk) return AllocateFresh(chunk);
    }
    return AllocateFromAnother();
  }

  // Ends the use of `entry`: its id is stale. True: there is memory now that TakeUnused() would take.
  bool Free(TimerEntry* entry) noexcept {
    TimerChunk* chunk = TimerChunk::Of(entry);
    const std::uint64_t generation = GenerationOfWord(entry->word.load(std::memory_order_relaxed)) + 1;
    // relaxed: ids are compared under the lock; without it a late look only takes the lock in vain.
    entry->word.store(generation << TimerEntry::kGenerationShift, std::memory_order_relaxed);
    if (generation > chunk->fresh_generation) chunk->fresh_generation = generation;
    if (WEFT_UNLIKELY(generation > kMaxGeneration)) {
      chunk->used = kPlacesPerChunk;  // Neither this place is used again, nor those never used, which would begin here.
      return false;
    }
    entry->next = chunk->free;
    chunk->free = entry;
    if (WEFT_UNLIKELY(!chunk->has_room)) AddWithRoom(chunk);
    return WEFT_UNLIKELY(--chunk->live == 0) && chunk != current_;
  }

  // A chunk for `shard`'s slab, not yet in it; nullptr: memory, or the numbers of ids, are used up. Calls the OS: not
  // under the lock.
  static TimerChunk* NewChunk(TimerShard* shard, EntryWidth width, bool huge_page, int node) noexcept;
  void Adopt(TimerChunk* chunk) noexcept;
  bool empty() const noexcept { return chunks_ == nullptr; }

  // A chunk with no live entry but with memory, which is out of use from now on; nullptr: there is none to spare.
  TimerChunk* TakeUnused() noexcept;
  // Its memory back to the OS. Not under the lock.
  static void ReturnMemory(TimerChunk* chunk) noexcept;
  // In use again.
  void PutBack(TimerChunk* chunk) noexcept { AddWithRoom(chunk); }

  // Calls f(entry) for each that is not free.
  template <class F>
  void ForEachLive(F&& f) {
    for (TimerChunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next_of_slab) {
      for (std::size_t place = TimerChunk::kFirstPlace; place < chunk->used; place += Lines()) {
        TimerEntry* entry = chunk->entry(place);
        if ((entry->word.load(std::memory_order_relaxed) & TimerEntry::kStateMask) != TimerEntry::kFree) f(entry);
      }
    }
  }

  std::size_t live() const noexcept;
  // Chunks that may hold memory.
  std::size_t chunks_in_memory() const noexcept;

 private:
  std::uint32_t Lines() const noexcept { return static_cast<std::uint32_t>(width_); }
  TimerEntry* AllocateFresh(TimerChunk* chunk) noexcept;
  TimerEntry* AllocateFromAnother() noexcept;
  void AddWithRoom(TimerChunk* chunk) noexcept;

  const EntryWidth width_;
  TimerChunk* current_ = nullptr;    // where Allocate() takes from
  TimerChunk* with_room_ = nullptr;  // others that have free entries
  TimerChunk* chunks_ = nullptr;     // all
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_TIMER_SLAB_H_
