// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// TimerEntry: a timer with a callback (fiber_timer.h), and the id by which its owner knows it.
//
// One cache line, or two: a timer whose callable has at most 16 bytes and that is neither periodic nor inherits an
// execution context is a narrow one.
//
//   line 0           links, fire, tick | generation and state | callback type | first 16 bytes of the callable
//   line 1, if wide  40 bytes more of the callable | execution context | interval | exact time of the next expiry
//
// Narrow ones are most of all timers (a request's time-out captures an object and a number), and a million of them are
// set and cancelled at the speed at which their memory comes and goes. With wide ones alone the processor fetches the
// second line along with the first, though nobody touches it: cancelling takes half as long again, and a million timers
// take 61 MiB more (docs/decisions/017). The shard is not among what an entry keeps: its chunk knows it (timer_slab.h).
//
// Ids. An entry is used by many timers, one after the other; each has its own generation, and an id is (generation,
// place of the entry). A use ends with the generation, so an old id matches nothing from then on. Generations of a
// place never come back: one that has used up all 2^36 is left alone for ever (TimerSlab::Free). 0 is no timer's id.
//
// The state, guarded by the lock of the entry's shard; only through callback_entry.h is it changed:
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
//   kFiring   in the hand of the timer thread, or of a fiber that has been started and has not run yet
//   kRunning  the callback runs
//   kEnding   the callback is being destroyed (or, before kCreated, constructed), with the lock dropped for that. Left
//             out where there is nothing to run.
//   From kFiring to kEnding `prev` heads the list of those who wait for the end, and from kRunning on `tick` says who
//   runs it.
#ifndef WEFT_TIMER_TIMER_ENTRY_H_
#define WEFT_TIMER_TIMER_ENTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

#include "weft/base/cpu.h"
#include "weft/timer/timer_queue.h"

namespace weft::timer {

// For log lines: the compiler's words, in which the name of the type stands.
template <class Type>
constexpr const char* PhraseWithNameOf() noexcept {
  return __PRETTY_FUNCTION__;
}

// What the timers know of a callback's type.
struct CallbackType {
  const char* phrase_with_name;  // as PhraseWithNameOf()
  void (*invoke)(void* callable, std::uint64_t id) noexcept;
  // Constructs *to from *from.
  void (*move)(void* to, void* from) noexcept;
  void (*destroy)(void* callable) noexcept;  // nullptr: nothing to do
  std::size_t size;
  bool moved_by_copying;  // To move it is to copy its bytes, which may be done under a spin lock.
};

struct alignas(base::kCacheLineSize) TimerEntry : TimerNode {
  static constexpr std::size_t kNarrowCallable = 16;
  static constexpr std::size_t kInlineCallable = 56;  // if wide

  enum State : std::uint64_t { kFree = 0, kCreated, kArmed, kFiring, kRunning, kEnding, kStateMask = 7 };
  enum Flag : std::uint64_t {
    kKilled = 1 << 3,         // with kFiring, kRunning: free it instead of running or arming it again
    kOnTimerThread = 1 << 4,  // the callback runs there, not in a fiber
    kPeriodic = 1 << 5,
    kHasContext = 1 << 6,
    kFlagMask = kKilled | kOnTimerThread | kPeriodic | kHasContext,
  };

  // generation << kGenerationShift | flags | state. Written under the lock; read without it to turn away stale ids.
  std::atomic<std::uint64_t> word;
  const CallbackType* type;
  std::byte begin_of_callable[kNarrowCallable];

  // That of a wide entry goes on in the next line; hence not by the name of the array, which ends here.
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
// The ABI lays a derived class's members into padding at its base's end: the rest of the callable would not follow its
// begin, and the interval would lie in the callable.
struct TimerEntryHasNoPaddingAtItsEnd : TimerEntry {
  std::byte next;
};
static_assert(sizeof(TimerEntryHasNoPaddingAtItsEnd) == 2 * base::kCacheLineSize);

enum class EntryWidth : std::uint8_t { kNarrow = 1, kWide = 2 };  // in lines
inline constexpr EntryWidth kEntryWidths[] = {EntryWidth::kNarrow, EntryWidth::kWide};

// An id's parts. The index counts places, each of a line: a wide entry has the number of its first one.
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

template <class Callable>
inline constexpr bool kCallableFitsInline =
    sizeof(Callable) <= TimerEntry::kInlineCallable &&
    alignof(Callable) <= alignof(void*) && std::is_nothrow_move_constructible_v<Callable>;

// For a callable that is kept in the entry. An exception that leaves it ends the process.
template <class Callable>
struct CallbackTypeOf {
  static void Invoke(void* callable, std::uint64_t id) noexcept {
    auto& callback = *static_cast<Callable*>(callable);
    if constexpr (std::is_invocable_v<Callable&, std::uint64_t>) {
      callback(id);
    } else {
      static_cast<void>(id);
      callback();
    }
  }
  static void Move(void* to, void* from) noexcept { ::new (to) Callable(std::move(*static_cast<Callable*>(from))); }
  static void Destroy(void* callable) noexcept { static_cast<Callable*>(callable)->~Callable(); }

  static constexpr CallbackType value = {
      .phrase_with_name = PhraseWithNameOf<Callable>(),
      .invoke = &Invoke,
      .move = &Move,
      .destroy = std::is_trivially_destructible_v<Callable> ? nullptr : &Destroy,
      .size = sizeof(Callable),
      .moved_by_copying = std::is_trivially_copyable_v<Callable>,
  };
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_TIMER_ENTRY_H_
