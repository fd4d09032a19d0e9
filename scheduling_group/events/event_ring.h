// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EventRing: the last events of one thread, overwriting, readable while it is written.
//
// Three words an event. The writer's thread alone writes: it stores the words where the oldest event was, and then
// counts. A reader copies what is there, and then looks at the count again: what may have been overwritten meanwhile it
// drops.
//
//   writer, event n                          reader
//   ---------------                          ------
//   fence, release                           e = count, acquire
//   the words of slot n % capacity           copies the events [e - capacity, e)
//   count = n + 1, release                   fence, acquire
//                                            n = count: drops all before n - capacity + 1
//
// Invariants
//   ER1  No torn event is returned. Event i is copied whole: its count was seen. If a word of a later event was copied
//        in its place, that one is j >= i + capacity; its words come after a fence behind the store of count = j, so
//        the reader finds n >= j (the two fences meet in that word), and i < n - capacity + 1 is dropped.
//   ER2  What is returned is a row without gaps, and ends with the last event that was counted when the copy began.
//   ER3  The writer waits for nobody. Whoever reads disturbs it by its cache lines only.
// Checked for all interleavings in tests/model/event_ring_model.cc.
//
// Cost: a clock, four stores and a load; on x86 the fences are none. Write(): the owner's thread. Copy(): any thread.
// The memory is its maker's: recorder.h.
//
// Rejected: a sequence number in each event (a fourth word, and no row without gaps); a lock; events of two words (a
// wake has a time and two fibers).
#ifndef WEFT_SCHEDULING_GROUP_EVENTS_EVENT_RING_H_
#define WEFT_SCHEDULING_GROUP_EVENTS_EVENT_RING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

class EventRing {
 public:
  static constexpr std::size_t kWords = 3;
  using Words = std::array<std::uint64_t, kWords>;
  struct Slot {
    std::array<base::Atomic<std::uint64_t>, kWords> words;
  };

  // slots: capacity of them, a power of two; they outlive the ring.
  EventRing(Slot* slots, std::size_t capacity) noexcept : slots_(slots), mask_(capacity - 1) {}

  std::size_t capacity() const noexcept { return mask_ + 1; }

  WEFT_ALWAYS_INLINE void Write(std::uint64_t first, std::uint64_t second, std::uint64_t third) noexcept {
    const std::uint64_t n = count_.load(std::memory_order_relaxed);  // Its own.
    Slot& slot = slots_[n & mask_];
    // release: count = n, before the words. Pairs with the fence in Copy() (ER1).
    base::ThreadFence(std::memory_order_release);
    slot.words[0].store(first, std::memory_order_relaxed);
    slot.words[1].store(second, std::memory_order_relaxed);
    slot.words[2].store(third, std::memory_order_relaxed);
    count_.store(n + 1, std::memory_order_release);  // The words. Pairs with the acquire in Copy().
  }

  // How many have ever been written.
  std::uint64_t count() const noexcept { return count_.load(std::memory_order_relaxed); }

  // Copies the events that are there, and that come with or after number `from`, to out[0 ..), which has room for
  // `capacity()`. Returns how many are good; *first: where the first of them is in `out`; *number: its number.
  std::size_t Copy(std::uint64_t from, Words* out, std::size_t* first, std::uint64_t* number) const noexcept {
    const std::uint64_t end = count_.load(std::memory_order_acquire);  // Pairs with the release in Write().
    std::uint64_t begin = end > mask_ + 1 ? end - (mask_ + 1) : 0;
    if (begin < from) begin = from < end ? from : end;
    for (std::uint64_t i = begin; i < end; ++i) {
      const Slot& slot = slots_[i & mask_];
      for (std::size_t w = 0; w < kWords; ++w) out[i - begin][w] = slot.words[w].load(std::memory_order_relaxed);
    }
    base::ThreadFence(std::memory_order_acquire);  // Pairs with the fence in Write() (ER1).
    const std::uint64_t now = count_.load(std::memory_order_relaxed);
    std::uint64_t good = now > mask_ ? now - mask_ : 0;  // The writer may be writing event `now`.
    if (good < begin) good = begin;
    if (good > end) good = end;
    *first = good - begin;
    *number = good;
    return end - good;
  }

 private:
  Slot* const slots_;
  const std::uint64_t mask_;
  base::Atomic<std::uint64_t> count_{0};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_EVENTS_EVENT_RING_H_
