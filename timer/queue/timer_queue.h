// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerQueue: timers in the order in which they are due: a hierarchical timing wheel, without lock, thread or clock.
//
// The near wheel has a slot for each of the next 4096 ticks (134 ms): most sleeps and many time-outs go there at once,
// and are not touched again until they fire. Later timers lie in one of 6 far levels of 64 slots. The highest group of
// six bits in which a timer's tick differs from the present gives the level and the slot:
//
//     present  000 ... 000011 010110 111010 110110011001
//     node     000 ... 000011 011001 000100 001110100010
//                             ^^^^^^ far level 2, slot 25
//
//     ticks a slot: far level 1: 4096 (134 ms), 2: 64 times that (8.6 s), 3: 9.2 minutes, 4: 9.8 hours, 5: 26 days, ...
//
// When the present reaches a far slot, its nodes are filed again at a lower level, at most six times in all. Slots are
// rings with a sentinel; bitmaps say which are not empty, so empty ones cost nothing however far the present jumps.
//
// Invariants
//   TQ1  A near node's tick is in [present, present + 4096), so a near slot holds one tick only. A far node lies in a
//        slot ahead of the present's own slot of that level, and agrees with the present in all bits above that level.
//        Hence the lowest slot of the lowest far level in use begins before all other far slots, and the next node to
//        visit is there or in the first near slot.
//   TQ2  A slot's bit is set exactly if the slot holds a node.
//   TQ3  Nodes go to the sink in the order of their ticks, and only when the tick is not after the present. Nodes of
//        one tick keep the order in which they were added, unless one was added as far and another as near.
//   TQ4  Add, Remove: constant time, no allocation. Advance: touches at most `budget` nodes, so that a lock around it
//        is held briefly; the rest stays in its near slot or in the ring kRefile, and the next call goes on there.
// Who may call: one thread at a time (a TimerShard holds it under its lock). ExactQueue, below, takes its place under a
// test clock.
//
// Rejected: 64 slots at the lowest level, too (a sleep of 100 ms is filed three times before it fires: 740 ns per
// sleeper instead of 110; bench/timer/timer_benchmark.cc, BM_Sleepers). A binary or 4-ary heap (20 levels of cache
// misses for a million timers, and an index in each node that every sift rewrites; BM_StdPriorityQueue). Far slots that
// wrap round (each visit must test all nodes).
#ifndef WEFT_TIMER_QUEUE_TIMER_QUEUE_H_
#define WEFT_TIMER_QUEUE_TIMER_QUEUE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

class TimerQueue {
 public:
  enum class [[nodiscard]] Progress{
      kDone,  // the present is `now`; nothing due is left
      kMore,  // the budget is used up: call again
  };

  explicit TimerQueue(Tick present = 0) noexcept : present_(std::min(present, kLastTick)) {}
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;

  // `node` is not linked. A tick that has passed is due at once.
  void Add(TimerNode* node, Tick tick) noexcept {
    WEFT_DCHECK(!node->linked(), "TimerQueue::Add: the node is linked already");
    if (WEFT_UNLIKELY(tick < present_)) tick = present_;
    if (WEFT_UNLIKELY(tick > kLastTick)) tick = kLastTick;
    node->tick = tick;
    ++added_;
    File(node);
  }

  // `node` is linked, here.
  void Remove(TimerNode* node) noexcept {
    WEFT_DCHECK(node->linked(), "TimerQueue::Remove: the node is not linked");
    ++taken_;
    // Timers are often cancelled in the order they were set. Prefetch the node two ahead: that miss would cost as much
    // as the rest of Remove() (bench/timer/timer_benchmark.cc, BM_SetAndKill).
    __builtin_prefetch(node->next->next, 1);
    Unlink(node);
  }

  // Moves the present to `now`, and passes each due node, unlinked, to `sink(TimerNode*)`, which may not call the
  // queue. A `now` before the present counts as the present.
  template <class Sink>
  Progress Advance(Tick now, std::size_t budget, Sink&& sink);

  // No node is due before the tick returned; kNever: there are no nodes. Exact if the node is near or few nodes share
  // the first far slot; else it may be the tick at which that slot must be filed again.
  Tick NextWakeup() const noexcept;

  // Takes out some node, whatever its tick; nullptr: there is none. Constant time.
  TimerNode* PopAny() noexcept;

  // Whether Add would use a far slot, because `tick` is far or because the present has fallen behind.
  bool IsFar(Tick tick) const noexcept { return tick >= present_ + kNearSlots; }

  // Sets the present of an empty queue, even to an earlier tick.
  void Restart(Tick present) noexcept {
    WEFT_CHECK(empty(), "TimerQueue::Restart: there are timers in it");
    present_ = present;
    fetched_until_ = 0;
    added_ = taken_ = 0;
  }

  Tick present() const noexcept { return present_; }
  // How often Add() was called since Restart(). (Its two counts are all that size() costs.)
  std::size_t added() const noexcept { return added_; }
  std::size_t size() const noexcept { return added_ - taken_; }
  bool empty() const noexcept { return added_ == taken_; }

 private:
  static constexpr int kNearBits = 12;
  static constexpr int kNearSlots = 1 << kNearBits;
  static constexpr int kNearWords = kNearSlots / 64;
  static constexpr int kFarBits = 6;
  static constexpr int kFarSlots = 1 << kFarBits;
  static constexpr int kFarLevels = (kTickBits - kNearBits) / kFarBits;
  // Rings: the near slots, the far ones level by level, and kRefile: nodes taken from a far slot and not filed yet.
  static constexpr int kFirstFar = kNearSlots;
  static constexpr int kRefile = kFirstFar + kFarLevels * kFarSlots;
  // NextWakeup looks at up to this many nodes of a far slot for the exact tick: a lone timer then takes one wake-up.
  static constexpr int kExactWithin = 8;
  // FetchAhead: the ticks, and the nodes of each, to fetch together: as many lines as a core can wait for at a time.
  static constexpr int kFetchTicks = 8;
  static constexpr int kFetchPerTick = 32;
  static_assert(kNearBits + kFarLevels * kFarBits == kTickBits && kNearWords == 64);

  struct Slot {
    int ring;  // -1: there is none
    Tick begin;
  };

  Slot FirstNear() const noexcept;
  Slot FirstFar() const noexcept;

  // Sets the bit of a ring. True: it was clear, and the ring gets its first node.
  bool MarkUsed(int ring) noexcept {
    const std::uint64_t bit = std::uint64_t{1} << (ring % 64);
    std::uint64_t& word = in_use_[ring / 64];
    if (WEFT_LIKELY((word & bit) != 0)) return false;
    word |= bit;
    if (ring < kNearSlots) near_words_in_use_ |= std::uint64_t{1} << (ring / 64);
    return true;
  }

  void MarkUnused(int ring) noexcept {
    std::uint64_t& word = in_use_[ring / 64];
    word &= ~(std::uint64_t{1} << (ring % 64));
    if (ring < kNearSlots && word == 0) near_words_in_use_ &= ~(std::uint64_t{1} << (ring / 64));
  }

  int RingOf(Tick tick) const noexcept {
    if (tick - present_ < kNearSlots) return static_cast<int>(tick % kNearSlots);
    const int level = (63 - std::countl_zero(tick ^ present_) - kNearBits) / kFarBits;
    return kFirstFar + level * kFarSlots + static_cast<int>((tick >> (kNearBits + level * kFarBits)) % kFarSlots);
  }

  void File(TimerNode* node) noexcept {
    const int index = RingOf(node->tick);
    TimerLink* ring = &rings_[index];
    if (MarkUsed(index)) ring->next = ring->prev = ring;
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
    // It was the last node if both are the sentinel, whose position gives the bit to clear (TQ2).
    if (next == prev) MarkUnused(static_cast<int>(next - rings_));
  }

  // Prefetches the nodes of the next few ticks from the caches of the cores that set them, many lists at a time, since
  // a node must arrive before the next of its list is known (BM_Sleepers: 110 ns per sleeper, 310 one by one).
  void FetchAhead() noexcept;

  // Moves all of a far slot's nodes into refile_, which is empty.
  void TakeForRefiling(int ring) noexcept;

  bool RefilingDone() const noexcept { return (in_use_[kRefile / 64] & 1) == 0; }

  Tick present_;
  Tick fetched_until_ = 0;  // FetchAhead() has fetched the ticks before it
  std::size_t added_ = 0;
  std::size_t taken_ = 0;
  std::uint64_t near_words_in_use_ = 0;          // which of the near words below are not zero
  std::uint64_t in_use_[kRefile / 64 + 1] = {};  // one bit for each ring
  TimerLink rings_[kRefile + 1];                 // a sentinel is valid only while its bit is set
};

inline TimerQueue::Slot TimerQueue::FirstNear() const noexcept {
  if (near_words_in_use_ == 0) return {-1, kNever};
  // Once around the wheel: the present's word from the present on, the words after it, those before it, then the rest
  // of the present's word.
  const int own = static_cast<int>(present_ % kNearSlots);
  const int own_word = own / 64;
  const std::uint64_t not_passed = in_use_[own_word] & (~std::uint64_t{0} << (own % 64));
  int ring;
  if (not_passed != 0) {
    ring = own_word * 64 + std::countr_zero(not_passed);
  } else {
    const std::uint64_t after = near_words_in_use_ & (own_word == 63 ? 0 : ~std::uint64_t{0} << (own_word + 1));
    const int word = std::countr_zero(after != 0 ? after : near_words_in_use_);
    ring = word * 64 + std::countr_zero(in_use_[word]);
  }
  return {ring, present_ + static_cast<Tick>((ring - own) & (kNearSlots - 1))};
}

inline TimerQueue::Slot TimerQueue::FirstFar() const noexcept {
  for (int level = 0; level < kFarLevels; ++level) {
    const std::uint64_t in_use = in_use_[kFirstFar / 64 + level];
    if (in_use == 0) continue;
    const int slot = std::countr_zero(in_use);
    const int shift = kNearBits + level * kFarBits;
    const Tick above = present_ >> shift >> kFarBits << kFarBits << shift;
    return {kFirstFar + level * kFarSlots + slot, above | (static_cast<Tick>(slot) << shift)};
  }
  return {-1, kNever};
}

template <class Sink>
TimerQueue::Progress TimerQueue::Advance(Tick now, std::size_t budget, Sink&& sink) {
  if (now > kLastTick) now = kLastTick;
  for (;;) {
    while (!RefilingDone()) {
      if (budget-- == 0) return Progress::kMore;
      auto* node = static_cast<TimerNode*>(rings_[kRefile].next);
      __builtin_prefetch(node->next);
      Unlink(node);
      if (node->tick <= present_) {
        ++taken_;
        sink(node);
      } else {
        File(node);
      }
    }
    const Slot far = FirstFar();
    const Slot near = FirstNear();
    // Also if both begin at the same tick. (The other order would do as well: TQ3 leaves it open.)
    if (far.begin <= near.begin) {
      if (far.begin > now) break;
      present_ = far.begin;
      TakeForRefiling(far.ring);
      continue;
    }
    if (near.begin > now) break;
    present_ = near.begin;
    if (present_ >= fetched_until_) FetchAhead();
    TimerLink* ring = &rings_[near.ring];
    for (TimerLink* link = ring->next; link != ring; link = ring->next) {
      if (budget-- == 0) return Progress::kMore;
      auto* node = static_cast<TimerNode*>(link);
      __builtin_prefetch(node->next);
      Unlink(node);
      ++taken_;
      sink(node);
    }
  }
  if (now > present_) present_ = now;
  return Progress::kDone;
}

WEFT_NOINLINE inline Tick TimerQueue::NextWakeup() const noexcept {
  if (!RefilingDone()) return present_;
  const Slot near = FirstNear();
  const Slot far = FirstFar();
  if (near.begin < far.begin || far.ring < 0) return near.begin;
  const TimerLink* ring = &rings_[far.ring];
  Tick earliest = near.begin;
  int looked_at = 0;
  for (const TimerLink* link = ring->next; link != ring; link = link->next) {
    if (++looked_at > kExactWithin) return far.begin;
    earliest = std::min(earliest, static_cast<const TimerNode*>(link)->tick);
  }
  return earliest;
}

inline TimerNode* TimerQueue::PopAny() noexcept {
  int ring = kRefile;
  if (RefilingDone()) {
    ring = FirstNear().ring;
    if (ring < 0) ring = FirstFar().ring;
    if (ring < 0) return nullptr;
  }
  auto* node = static_cast<TimerNode*>(rings_[ring].next);
  Remove(node);
  return node;
}

WEFT_NOINLINE inline void TimerQueue::FetchAhead() noexcept {
  fetched_until_ = present_ + kFetchTicks;
  const TimerLink* at[kFetchTicks];
  const TimerLink* end[kFetchTicks];
  int lists = 0;
  for (int i = 0; i < kFetchTicks; ++i) {
    const auto ring = static_cast<std::size_t>((present_ + static_cast<Tick>(i)) % kNearSlots);
    if ((in_use_[ring / 64] >> (ring % 64) & 1) == 0) continue;
    end[lists] = &rings_[ring];
    at[lists] = rings_[ring].next;
    ++lists;
  }
  for (int step = 0; step < kFetchPerTick && lists > 0; ++step) {
    for (int i = 0; i < lists;) {
      __builtin_prefetch(at[i], 1);  // For writing, since it will be unlinked.
      at[i] = at[i]->next;
      if (at[i] != end[i]) {
        ++i;
      } else {
        --lists;
        at[i] = at[lists];
        end[i] = end[lists];
      }
    }
  }
}

inline void TimerQueue::TakeForRefiling(int ring) noexcept {
  TimerLink* from = &rings_[ring];
  TimerLink* to = &rings_[kRefile];
  MarkUsed(kRefile);
  to->next = from->next;
  to->prev = from->prev;
  to->next->prev = to;
  to->prev->next = to;
  MarkUnused(ring);
}

// The timers of a shard under a test clock: a ring in the order of deadlines, to the nanosecond, and of arming where
// these are equal. So a test sees its very deadlines, in a fixed order; TimerQueue rounds to ticks (TQ3). Add()
// searches from the back, a step for each node that is due later: for tests with thousands of timers at most.
class ExactQueue {
 public:
  ExactQueue() = default;
  ExactQueue(const ExactQueue&) = delete;
  ExactQueue& operator=(const ExactQueue&) = delete;

  // `node` is not linked.
  void Add(TimerNode* node, Tick tick) noexcept {
    WEFT_DCHECK(!node->linked(), "ExactQueue::Add: the node is linked already");
    node->tick = tick;
    TimerLink* before = ring_.prev;
    while (before != &ring_ && static_cast<TimerNode*>(before)->tick > tick) before = before->prev;
    node->prev = before;
    node->next = before->next;
    before->next->prev = node;
    before->next = node;
    ++added_;
  }

  // `node` is linked, here.
  void Remove(TimerNode* node) noexcept {
    node->next->prev = node->prev;
    node->prev->next = node->next;
    node->next = nullptr;
    ++taken_;
  }

  // The first, taken out, if it is due; nullptr: none is.
  TimerNode* PopDue(Tick now) noexcept {
    if (First() > now || size() == 0) return nullptr;
    auto* node = static_cast<TimerNode*>(ring_.next);
    Remove(node);
    return node;
  }

  // When the first is due; kNever: there is none.
  Tick First() const noexcept { return size() == 0 ? kNever : static_cast<const TimerNode*>(ring_.next)->tick; }
  std::size_t size() const noexcept { return added_ - taken_; }
  std::size_t added() const noexcept { return added_; }
  // Of an empty one.
  void Restart() noexcept { added_ = taken_ = 0; }

 private:
  TimerLink ring_{.next = &ring_, .prev = &ring_};
  std::size_t added_ = 0;
  std::size_t taken_ = 0;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TIMER_QUEUE_H_
