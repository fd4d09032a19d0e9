// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// TimerSlab: the memory of one shard's timer entries of one width.
//
// Chunks of 2 MiB: a header, then 32764 narrow entries or 16382 wide ones. Small pages: to clear a huge one takes 0.3
// ms, 5 ms where the machine below must find the memory first, and the setter would stand still for that
// (bench/workload --workload=timers,timers_stall). A chunk gets its memory as it is used up, 16 KiB at a time and
// without the shard's lock (WithoutMemory(), Populate()), so that a few timers cost a few pages, and no page fault is
// taken under the lock. Within a chunk entries that were freed are used first, the last one first; then those never
// used, in the order of addresses. One chunk of each slab stays warm after a burst.
//
// Invariants
//   TS1  A chunk belongs to one slab and is never unmapped: an id that once was good leads to an entry for ever, whose
//        shard never changes. Slabs live as long as the process (shard_set.h).
//   TS2  A chunk whose memory went back to the OS reads as zeros: generation 0, which no id has. `fresh_generation` in
//        its header, which stays, is above all generations its entries ever had.
//   TS3  An entry is free exactly if its state is kFree. Who allocates one sets the state before it drops the lock.
// Find(), NewChunk(), Populate(), ReturnMemory(): any thread, no lock. All else: under the lock of the slab's shard.
//
// Rejected: one array of entries with an id per index and no chunks (cannot grow in place); the heap (malloc is
// 20 ns and 8 to 16 bytes of header; memory that goes back to it cannot be looked at by a stale id); huge pages (what
// they save of address translation PrefetchAfter() saves, too).
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

  TimerEntry* free = nullptr;          // linked by `next`
  TimerChunk* next_partial = nullptr;  // in TimerSlab::partial_ or without_memory_
  TimerChunk* next_of_slab = nullptr;  // in TimerSlab::chunks_
  TimerShard* shard = nullptr;
  std::uint64_t fresh_generation = 1;  // TS2
  std::uint32_t live = 0;              // entries allocated
  std::uint32_t used = kFirstPlace;    // places below have been allocated before, or are the header
  std::uint32_t populated = 0;         // places below have been given memory
  std::uint32_t number = 0;            // in the directory
  EntryWidth width = EntryWidth::kNarrow;
  bool is_partial = false;  // is current_ or in partial_

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

  // An entry whose word says kFree with the generation of its new use; nullptr: give memory to WithoutMemory(), or
  // Adopt() a chunk if that is nullptr, and try again.
  TimerEntry* Allocate() noexcept {
    TimerChunk* chunk = current_;
    if (WEFT_LIKELY(chunk != nullptr)) {
      if (TimerEntry* entry = chunk->free) {
        chunk->free = static_cast<TimerEntry*>(entry->next);
        PrefetchAfter(entry);
        entry->next = nullptr;
        ++chunk->live;
        return entry;
      }
      if (chunk->used < chunk->populated) return AllocateFresh(chunk);
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
    if (WEFT_UNLIKELY(!chunk->is_partial)) AddPartial(chunk);
    return WEFT_UNLIKELY(--chunk->live == 0) && chunk != current_;
  }

  // After Allocate() has said nullptr: the chunk that it would take from if more of it had memory.
  TimerChunk* WithoutMemory() const noexcept { return growing_; }
  // The place before which a chunk of which `populated` places have memory gets it next.
  static std::uint32_t NextStep(std::uint32_t populated) noexcept;
  // Gives memory to the places from `from` to `to`. Calls the OS: not under the lock. Others may do the same.
  static void Populate(TimerChunk* chunk, std::uint32_t from, std::uint32_t to) noexcept;

  // A chunk for `shard`'s slab, not yet in it; nullptr: memory, or the numbers of ids, are used up. Calls the OS: not
  // under the lock.
  static TimerChunk* NewChunk(TimerShard* shard, EntryWidth width, int node) noexcept;
  void Adopt(TimerChunk* chunk) noexcept;

  // A chunk with no live entry but with memory, which is out of use from now on; nullptr: there is none to spare.
  TimerChunk* TakeUnused() noexcept;
  // Its memory back to the OS. Not under the lock.
  static void ReturnMemory(TimerChunk* chunk) noexcept;
  // In use again.
  void PutBack(TimerChunk* chunk) noexcept { AddWithoutMemory(chunk); }

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
  static constexpr std::uintptr_t kFetchAhead = 6;

  std::uint32_t Lines() const noexcept { return static_cast<std::uint32_t>(width_); }
  // The next free entry, which is about to be taken, and the one some places on if they go on in this direction: timers
  // are often killed in the order in which they were set. (Without it 55 ns instead of 21 for each timer that is set
  // where a million were killed in the order of falling addresses; bench/workload --workload=timers, third round.)
  static void PrefetchAfter(const TimerEntry* entry) noexcept {
    const auto here = reinterpret_cast<std::uintptr_t>(entry);
    const auto next = reinterpret_cast<std::uintptr_t>(entry->next);
    __builtin_prefetch(entry->next, 1);
    __builtin_prefetch(reinterpret_cast<const void*>(next + kFetchAhead * (next - here)), 1);
  }
  TimerEntry* AllocateFresh(TimerChunk* chunk) noexcept;
  TimerEntry* AllocateFromAnother() noexcept;
  void AddPartial(TimerChunk* chunk) noexcept;
  void AddWithoutMemory(TimerChunk* chunk) noexcept;

  const EntryWidth width_;
  TimerChunk* current_ = nullptr;         // where Allocate() takes from
  TimerChunk* partial_ = nullptr;         // others that have entries that were freed
  TimerChunk* growing_ = nullptr;         // the one of which a part was never used; maybe one of the above, too
  TimerChunk* without_memory_ = nullptr;  // of which nothing was used
  TimerChunk* chunks_ = nullptr;          // all
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_TIMER_SLAB_H_
