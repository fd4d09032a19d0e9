// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerQueue: what is due when. A hierarchical timing wheel; no lock, no thread and no clock of its own.
//
// 8 levels of 64 slots. A node lies at the level of the highest group of six bits in which its tick differs from the
// present, in the slot which that group names:
//
//     present  000 ... 000011 010110 111010       level 0: one tick a slot    (32.8 us)
//     node     000 ... 000011 011001 000100       level 1: 64 ticks a slot    (2.1 ms)
//                             ^^^^^^ level 1,     level 2: 4096 ticks a slot  (134 ms)
//                                    slot 25      level 3: 8.6 s, 4: 9.2 minutes ... 7: 4.6 years
//
// When the present reaches the first tick of a slot above level 0, the slot's nodes are filed again, each at a lower
// level: at most seven times in a node's life. Slots are rings of nodes with a sentinel; a word of 64 bits per level
// says which slots are not empty, so that empty ones cost nothing however far the present jumps.
//
// Invariants
//   TQ1  a node at level l lies in a slot ahead of the present's own slot of that level (level 0: ahead, or the present
//        itself), and agrees with the present in all bits above that level. Hence every node of a level is due before
//        every node of the next one, and the lowest slot of the lowest level in use holds the next to be due.
//   TQ2  a slot's bit is set exactly if the slot holds a node.
//   TQ3  a node is handed to the sink only when its tick is not after the present; in the order of ticks.
//   TQ4  Add, Remove: constant time, no allocation. Advance: at most `budget` nodes are touched, so that whoever guards
//        the queue with a lock holds it briefly; what is left is kept in refile_, and the next call goes on there.
//
// Who may call: one thread at a time (a TimerShard holds it under its lock).
//
// Rejected: a binary or 4-ary heap (a million timers: 20 levels of cache misses to set, and cancelling needs
// an index in each node that every sift rewrites; bench/timer/timer_benchmark.cc, BM_StdPriorityQueue). Buckets that
// wrap round (a slot then holds nodes of this round and the next, so each visit must test them all).
#ifndef WEFT_TIMER_TIMER_QUEUE_H_
#define WEFT_TIMER_TIMER_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/check.h"
#include "weft/base/cpu.h"
#include "weft/timer/tick.h"

namespace weft::timer {

class FireContext;
class TimerShard;

// The links of a slot's ring; the sentinel has nothing else.
struct TimerLink {
  TimerLink* next = nullptr;
  TimerLink* prev = nullptr;
};

// One timer. Lives where its owner likes, typically on the stack of the fiber that waits; must stay there while linked.
struct TimerNode : TimerLink {
  // Called once when it is due; what it may do is said in timer_worker.h.
  void (*fire)(TimerNode* node, FireContext* context) = nullptr;
  // When it is due. Set by TimerQueue::Add.
  Tick tick = 0;
  // Where it was last armed. Owned by TimerWorker; nullptr: never armed.
  TimerShard* shard = nullptr;

  bool linked() const noexcept { return next != nullptr; }
};

class TimerQueue {
 public:
  enum class [[nodiscard]] Progress{
      kDone,  // the present is `now`; nothing due is left
      kMore,  // the budget is used up: call again
  };

  explicit TimerQueue(Tick present = 0) noexcept;
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // `node` is not linked. A tick that has passed is due at once.
  void Add(TimerNode* node, Tick tick) noexcept {
    WEFT_DCHECK(!node->linked(), "TimerQueue::Add: the node is linked already");
    if (WEFT_UNLIKELY(tick < present_)) tick = present_;
    if (WEFT_UNLIKELY(tick > kLastTick)) tick = kLastTick;
    node->tick = tick;
    ++size_;
    File(node);
  }

  // `node` is linked, here.
  void Remove(TimerNode* node) noexcept {
    WEFT_DCHECK(node->linked(), "TimerQueue::Remove: the node is not linked");
    --size_;
    // Who removes many often does so in the order in which they were added: the one after next is then the next but
    // one, and its cache miss would cost as much as all the rest (bench/timer/timer_benchmark.cc, BM_SetAndKill).
    __builtin_prefetch(node->next->next, 1);
    Unlink(node);
  }

  // Moves the present to `now` and hands each node that is due, unlinked, to `sink(TimerNode*)`, which may not call
  // back. A `now` before the present is taken for the present.
  template <class Sink>
  Progress Advance(Tick now, std::size_t budget, Sink&& sink);

  // No node is due before the tick returned; kNever if there is none at all. Exact if it lies within level 0 or few
  // nodes share the first slot; else it may be the tick at which that slot must be filed again.
  Tick NextWakeup() const noexcept;

  // Takes out any one node, whatever its tick; nullptr if there is none. Constant time.
  TimerNode* PopAny() noexcept;

  // Sets the present of an empty queue, also back.
  void Restart(Tick present) noexcept {
    WEFT_CHECK(empty(), "TimerQueue::Restart: there are timers in it");
    present_ = present;
  }

  Tick present() const noexcept { return present_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  static constexpr int kSlotBits = 6;
  static constexpr int kSlots = 1 << kSlotBits;
  static constexpr int kLevels = kTickBits / kSlotBits;
  // The ring after all slots: what Advance has taken from a slot and not yet looked at.
  static constexpr int kRefile = kLevels * kSlots;
  // NextWakeup looks at so many nodes of a slot for the exact tick: one timer a minute ahead then takes one wake-up
  // instead of one per level, and the look stays cheap.
  static constexpr int kExactWithin = 8;

  struct FirstSlot {
    int index;  // -1: the queue is empty
    Tick begin;
  };

  // The earliest slot in use (TQ1), refile_ aside.
  FirstSlot Earliest() const noexcept {
    for (int level = 0; level < kLevels; ++level) {
      if (in_use_[level] == 0) continue;
      const int slot = std::countr_zero(in_use_[level]);
      const int shift = level * kSlotBits;
      const Tick above = present_ >> shift >> kSlotBits << kSlotBits << shift;
      return {level * kSlots + slot, above | (static_cast<Tick>(slot) << shift)};
    }
    return {-1, kNever};
  }

  void File(TimerNode* node) noexcept {
    // `| 1`: a difference of none is level 0 as well.
    const int level = (63 - std::countl_zero((node->tick ^ present_) | 1)) / kSlotBits;
    const int slot = static_cast<int>(node->tick >> (level * kSlotBits)) & (kSlots - 1);
    in_use_[level] |= std::uint64_t{1} << slot;
    Append(&rings_[level * kSlots + slot], node);
  }

  static void Append(TimerLink* ring, TimerNode* node) noexcept {
    TimerLink* last = ring->prev;
    node->next = ring;
    node->prev = last;
    last->next = node;
    ring->prev = node;
  }

  void Unlink(TimerNode* node) noexcept {
    TimerLink* next = node->next;
    TimerLink* prev = node->prev;
    next->prev = prev;
    prev->next = next;
    node->next = nullptr;
    if (next ==
        prev) {  // It was the last one: what remains is the sentinel, whose place says which bit to clear (TQ2).
      const auto ring = static_cast<std::size_t>(next - rings_);
      in_use_[ring / kSlots] &= ~(std::uint64_t{1} << (ring % kSlots));
    }
  }

  // Moves all of a slot's nodes into refile_, which is empty.
  void TakeForRefiling(int index) noexcept;

  bool RefilingDone() const noexcept { return rings_[kRefile].next == &rings_[kRefile]; }

  Tick present_;
  std::size_t size_ = 0;
  // One word per level, and one for refile_, whose bit Unlink clears and nobody reads.
  std::uint64_t in_use_[kLevels + 1] = {};
  TimerLink rings_[kLevels * kSlots + 1];
};

template <class Sink>
TimerQueue::Progress TimerQueue::Advance(Tick now, std::size_t budget, Sink&& sink) {
  for (;;) {
    while (!RefilingDone()) {
      if (budget-- == 0) return Progress::kMore;
      auto* node = static_cast<TimerNode*>(rings_[kRefile].next);
      __builtin_prefetch(node->next);  // A miss per node is what a large slot costs.
      Unlink(node);
      if (node->tick <= present_) {
        --size_;
        sink(node);
      } else {
        File(node);
      }
    }
    const FirstSlot first = Earliest();
    if (first.begin > now) break;
    present_ = first.begin;
    TakeForRefiling(first.index);
  }
  if (now > present_) present_ = now <= kLastTick ? now : kLastTick;
  return Progress::kDone;
}

}  // namespace weft::timer

#endif  // WEFT_TIMER_TIMER_QUEUE_H_
