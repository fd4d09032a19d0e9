// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerEntry: a timer with a callback (fiber_timer.h), and its id.
//
// A narrow entry has one cache line, a wide one two. Narrow is a timer that is not periodic, inherits no execution
// context, and has a callable of at most 16 bytes.
//
//   line 0           links, fire, tick | generation and state | callback type | first 16 bytes of the callable
//   line 1, if wide  40 bytes more of the callable | execution context | interval | exact time of the next expiry
//
// Most timers are narrow (a request's time-out captures an object and a number): see docs/decisions/017. The chunk of
// an entry, not the entry, knows its shard (timer_slab.h).
//
// Ids. An id is (generation, place of the entry). Each use of an entry has a new generation, so an ended timer's id
// matches nothing; a place that has used up all 2^36 is never used again (TimerSlab::Free). 0 is not an id.
//
// The state is guarded by the lock of the entry's shard, and changed through callback_entry.h only:
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
#ifndef WEFT_TIMER_QUEUE_TIMER_ENTRY_H_
#define WEFT_TIMER_QUEUE_TIMER_ENTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/timer/callback/callback_type.h"
#include "weft/timer/queue/timer_queue.h"

namespace weft::timer {

struct alignas(base::kCacheLineSize) TimerEntry : TimerNode {
  static constexpr std::size_t kNarrowCallable = 16;
  static constexpr std::size_t kInlineCallable = kInlineCallback;  // if wide

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

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_ENTRY_H_
