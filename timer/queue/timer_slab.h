// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Timers with callbacks (fiber_timer.h): TimerEntry, its id, and its memory, which is a shard's TimerSlab.
//
// A narrow entry has one cache line, a wide one two. Narrow is a timer that is not periodic, inherits no execution
// context, and has a callable of at most 16 bytes.
//
//   line 0           links, fire, tick | generation and state | callback type | first 16 bytes of the callable
//   line 1, if wide  40 bytes more of the callable | execution context | interval | exact time of the next expiry
//
// Most timers are narrow (a request's time-out captures an object and a number): see docs/decisions/017. The chunk of
// an entry, not the entry, knows its shard.
//
// Ids. An id is (generation, place of the entry). Each use of an entry has a new generation, so an ended timer's id
// matches nothing; a place that has used up all 2^36 is never used again (TimerSlab::Free). 0 is not an id.
//
// The state is guarded by the lock of the entry's shard, and changed by callback_timer.cc and callback_runner.cc only:
//
//          Create           Enable                due              its fiber begins
//   kFree -------> kCreated -------> kArmed -------------> kFiring ------------------> kRunning
//     ^               |              |  ^ ^  fiber refused |  |                         |  |
//     |               | Kill    Kill |  | +----------------+  | killed                  |  |
//     |               |              |  +---------------------|--------- periodic ------+  |
//     |               v              v                        v                            |
//     +------------- kEnding <-------+------------------------+--- one-shot, or killed ----+
//
//   kArmed    in the shard's queue, and only then
//   kFiring   held by the timer thread, or by a fiber that has been started and has not run yet
//   kRunning  the callback runs
//   kEnding   the callback is being destroyed (or, before kCreated, constructed) without the lock; skipped if there is
//             nothing to run
//   From kFiring to kEnding `prev` heads the list of waiters for the end. In kFiring `tick` is the fiber that was
//   started, or 0; from kRunning on it says which fiber or thread runs the callback.
//
// Memory. A shard has a slab for each width, a slab has chunks. A chunk has 2 MiB: a header, then 32764 narrow entries
// or 16382 wide ones. It has small pages: clearing a huge one would stall the setter for 0.3 to 5 ms (bench/workload
// --workload=timers,timers_stall). It gets memory as it is used up, 16 KiB at a time and without the shard's lock
// (WithoutMemory(), Populate()): no page fault happens under the lock. Freed entries are used first, the last one
// first, then unused ones in the order of addresses. One chunk of each slab stays warm.
//
// Invariants
//   TS1  A chunk belongs to one slab and is never unmapped, so an id always leads to an entry, whose shard never
//        changes. Slabs live as long as the process (timer_shard.h).
//   TS2  Memory that went back to the OS reads as zeros: generation 0, which no id has. The header of a chunk stays,
//        and its `fresh_generation` is above all generations that its entries ever had.
//   TS3  An entry is free exactly if its state is kFree. A thread that allocates one sets the state before it drops the
//        lock.
// Find(), NewChunk(), Populate(), ReturnMemory(): any thread, no lock. All else: under the lock of the slab's shard.
//
// Rejected: one array of entries (it cannot grow in place); the heap (20 ns and 8 to 16 bytes of header, and a stale id
// may not read freed memory); huge pages (PrefetchAfter() saves as much address translation).
#ifndef WEFT_TIMER_QUEUE_TIMER_SLAB_H_
#define WEFT_TIMER_QUEUE_TIMER_SLAB_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

struct CallbackType;

struct alignas(base::kCacheLineSize) TimerEntry : TimerNode {
  static constexpr std::size_t kNarrowCallable = 16;
  static constexpr std::size_t kInlineCallable = 56;  // if wide; kInlineCallback

  enum State : std::uint64_t { kFree = 0, kCreated, kArmed, kFiring, kRunning, kEnding, kStateMask = 7 };
  enum Flag : std::uint64_t {
    kKilled = 1 << 3,         // with kFiring, kRunning: to be freed instead of run or armed again
    kOnTimerThread = 1 << 4,  // the callback runs there, not in a fiber
    kPeriodic = 1 << 5,
    kHasContext = 1 << 6,
    kFlagMask = kKilled | kOnTimerThread | kPeriodic | kHasContext,
  };

  // generation << kGenerationShift | flags | state. Written under the lock; also read without it, to reject stale ids.
  std::atomic<std::uint64_t> word;
  const CallbackType* type;
  std::byte begin_of_callable[kNarrowCallable];

  // A wide entry's callable continues in the next line, hence the pointer arithmetic instead of the array.
  void* callable() noexcept { return reinterpret_cast<std::byte*>(this) + sizeof(*this) - kNarrowCallable; }

  static constexpr int kGenerationShift = 8;
};

struct WideTimerEntry : TimerEntry {
  std::byte rest_of_callable[kInlineCallable - kNarrowCallable];
  void* execution_context;
  std::int64_t interval_ns;
  std::int64_t expires_ns;
};

static_assert(sizeof(TimerEntry) == base::kCacheLineSize);
static_assert(sizeof(WideTimerEntry) == 2 * base::kCacheLineSize);
// With padding at its end the ABI would put WideTimerEntry's members there, and the callable would lie in two pieces.
struct TimerEntryHasNoPaddingAtItsEnd : TimerEntry {
  std::byte next;
};
static_assert(sizeof(TimerEntryHasNoPaddingAtItsEnd) == 2 * base::kCacheLineSize);

enum class EntryWidth : std::uint8_t { kNarrow = 1, kWide = 2 };  // in lines
inline constexpr EntryWidth kEntryWidths[] = {EntryWidth::kNarrow, EntryWidth::kWide};

// The parts of an id. The index counts lines; a wide entry has the index of its first one.
inline constexpr int kIdIndexBits = 28;
inline constexpr std::uint64_t kMaxPlaces = std::uint64_t{1} << kIdIndexBits;
inline constexpr std::uint64_t kMaxGeneration = (std::uint64_t{1} << (64 - kIdIndexBits)) - 1;

inline constexpr std::uint64_t MakeTimerId(std::uint64_t generation, std::uint64_t index) noexcept {
  return generation << kIdIndexBits | index;
}
inline constexpr std::uint64_t GenerationOfId(std::uint64_t id) noexcept { return id >> kIdIndexBits; }
inline constexpr std::uint64_t IndexOfId(std::uint64_t id) noexcept { return id & (kMaxPlaces - 1); }
inline constexpr std::uint64_t GenerationOfWord(std::uint64_t word) noexcept {
  return word >> TimerEntry::kGenerationShift;
}
inline TimerEntry::State StateOf(std::uint64_t word) noexcept {
  return static_cast<TimerEntry::State>(word & TimerEntry::kStateMask);
}

// With the lock of the entry's shard, these three. relaxed: the lock orders the word.
inline std::uint64_t WordOf(const TimerEntry* entry) noexcept { return entry->word.load(std::memory_order_relaxed); }
inline void SetState(TimerEntry* entry, TimerEntry::State state) noexcept {
  entry->word.store((WordOf(entry) & ~std::uint64_t{TimerEntry::kStateMask}) | state, std::memory_order_relaxed);
}
inline void SetKilled(TimerEntry* entry) noexcept {
  entry->word.store(WordOf(entry) | TimerEntry::kKilled, std::memory_order_relaxed);
}

inline constexpr std::size_t kTimerChunkBytes = std::size_t{2} << 20;
inline constexpr std::size_t kPlacesPerChunk = kTimerChunkBytes / sizeof(TimerEntry);  // lines; some are the header
inline constexpr std::size_t kMaxTimerChunks = kMaxPlaces / kPlacesPerChunk;

struct TimerChunk {
  // Places below are the header.
  static constexpr std::uint32_t kFirstPlace = 4;

  // A processor delays a load if the lower 12 bits of its address equal those of a line just written. Shards begin at
  // multiples of 256, and each call writes to their beginning, so the fields here keep away from that (8 ns per call).
  alignas(4 * base::kCacheLineSize) std::byte distance[3 * base::kCacheLineSize];

  TimerEntry* free = nullptr;          // linked by `next`
  TimerChunk* next_partial = nullptr;  // in TimerSlab::partial_ or without_memory_
  TimerChunk* next_of_slab = nullptr;  // in TimerSlab::chunks_
  TimerShard* shard = nullptr;
  std::uint64_t fresh_generation = 1;  // TS2
  std::uint32_t live = 0;              // entries allocated
  std::uint32_t used = kFirstPlace;    // places below have been allocated once, or are the header
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

inline TimerShard* ShardOf(TimerEntry* entry) noexcept { return TimerChunk::Of(entry)->shard; }

// Of a timer with kPeriodic or kHasContext.
inline WideTimerEntry* Wide(TimerEntry* entry) noexcept {
  WEFT_DCHECK(TimerChunk::Of(entry)->width == EntryWidth::kWide, "a narrow entry has no second line");
  return static_cast<WideTimerEntry*>(entry);
}

// All chunks of the process by number; the place of an id is (number, place in the chunk).
extern std::atomic<TimerChunk*> weft_timer_chunks[kMaxTimerChunks];

class TimerSlab {
 public:
  explicit TimerSlab(EntryWidth width) noexcept : width_(width) {}
  TimerSlab(const TimerSlab&) = delete;
  TimerSlab& operator=(const TimerSlab&) = delete;

  // The entry of `id`, or nullptr if it never had one. Its generation, under the lock, says whether the id is valid.
  static TimerEntry* Find(std::uint64_t id) noexcept {
    if (WEFT_UNLIKELY(GenerationOfId(id) == 0)) return nullptr;  // The generation of unused memory.
    const std::uint64_t index = IndexOfId(id);
    // acquire: the chunk's header. Pairs with the release in NewChunk().
    TimerChunk* chunk = weft_timer_chunks[index / kPlacesPerChunk].load(std::memory_order_acquire);
    const std::size_t place = index % kPlacesPerChunk;
    if (WEFT_UNLIKELY(chunk == nullptr || place < TimerChunk::kFirstPlace)) return nullptr;
    // A user's bytes there would be taken for a generation.
    if (WEFT_UNLIKELY(chunk->width == EntryWidth::kWide && place % 2 != 0)) return nullptr;
    return chunk->entry(place);
  }

  static std::uint64_t IdOf(TimerEntry* entry, std::uint64_t generation) noexcept {
    TimerChunk* chunk = TimerChunk::Of(entry);
    return MakeTimerId(generation, chunk->number * kPlacesPerChunk +
                                       static_cast<std::size_t>(entry - reinterpret_cast<TimerEntry*>(chunk)));
  }

  // An entry with state kFree and the generation of its new use. nullptr: give memory to WithoutMemory(), or Adopt() a
  // chunk if that is nullptr, and try again.
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

  // Ends the use of `entry`; its id becomes stale. True: TakeUnused() would find a chunk now.
  bool Free(TimerEntry* entry) noexcept {
    TimerChunk* chunk = TimerChunk::Of(entry);
    const std::uint64_t generation = GenerationOfWord(entry->word.load(std::memory_order_relaxed)) + 1;
    // relaxed: ids are compared under the lock. A late read without it only takes the lock in vain.
    entry->word.store(generation << TimerEntry::kGenerationShift, std::memory_order_relaxed);
    if (generation > chunk->fresh_generation) chunk->fresh_generation = generation;
    if (WEFT_UNLIKELY(generation > kMaxGeneration)) {
      // Neither this place nor the chunk's unused ones, which would begin with this generation, are used again.
      chunk->used = kPlacesPerChunk;
      return false;
    }
    entry->next = chunk->free;
    chunk->free = entry;
    if (WEFT_UNLIKELY(!chunk->is_partial)) AddPartial(chunk);
    return WEFT_UNLIKELY(--chunk->live == 0) && chunk != current_;
  }

  // After Allocate() has returned nullptr: the chunk that it would take from if more of it had memory.
  TimerChunk* WithoutMemory() const noexcept { return growing_; }
  // The end of the next step of memory for a chunk of which `populated` places have memory.
  static std::uint32_t NextStep(std::uint32_t populated) noexcept;
  // Gives memory to the places from `from` to `to`. Not under the lock: it calls the OS. Other threads may do the same.
  static void Populate(TimerChunk* chunk, std::uint32_t from, std::uint32_t to) noexcept;

  // A new chunk for `shard`'s slab, not yet in it; nullptr: no memory, or no ids. Not under the lock: it calls the OS.
  static TimerChunk* NewChunk(TimerShard* shard, EntryWidth width, int node) noexcept;
  void Adopt(TimerChunk* chunk) noexcept;

  // Takes a chunk with memory but no live entry out of use; nullptr: there is none to spare.
  TimerChunk* TakeUnused() noexcept;
  // Gives its memory back to the OS. Not under the lock.
  static void ReturnMemory(TimerChunk* chunk) noexcept;
  // Puts the chunk into use again.
  void PutBack(TimerChunk* chunk) noexcept { AddWithoutMemory(chunk); }

  // Calls f(entry) for each entry that is not free.
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
  // Prefetches the next free entry, and the one some places further in the same direction: timers are often killed in
  // the order in which they were set. (Setting one takes 21 ns, not 55: bench/workload --workload=timers, third round.)
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
  TimerChunk* partial_ = nullptr;         // others that have freed entries
  TimerChunk* growing_ = nullptr;         // the one with a part never used; may be one of the above too
  TimerChunk* without_memory_ = nullptr;  // none of their places was used
  TimerChunk* chunks_ = nullptr;          // all
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_SLAB_H_
