// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/timer_queue.h"

#include <algorithm>

namespace weft::timer {

TimerQueue::TimerQueue(Tick present) noexcept : present_(std::min(present, kLastTick)) {
  for (TimerLink& ring : rings_) ring.next = ring.prev = &ring;
}

Tick TimerQueue::NextWakeup() const noexcept {
  if (!RefilingDone()) return present_;
  const FirstSlot first = Earliest();
  if (first.index < kSlots) return first.begin;  // Level 0, or none.
  const TimerLink* ring = &rings_[first.index];
  Tick earliest = kNever;
  int looked_at = 0;
  for (const TimerLink* link = ring->next; link != ring; link = link->next) {
    if (++looked_at > kExactWithin) return first.begin;
    earliest = std::min(earliest, static_cast<const TimerNode*>(link)->tick);
  }
  return earliest;
}

TimerNode* TimerQueue::PopAny() noexcept {
  const int index = RefilingDone() ? Earliest().index : kRefile;
  if (index < 0) return nullptr;
  auto* node = static_cast<TimerNode*>(rings_[index].next);
  Remove(node);
  return node;
}

void TimerQueue::TakeForRefiling(int index) noexcept {
  TimerLink* from = &rings_[index];
  TimerLink* to = &rings_[kRefile];
  to->next = from->next;
  to->prev = from->prev;
  to->next->prev = to;
  to->prev->next = to;
  from->next = from->prev = from;
  in_use_[index / kSlots] &= ~(std::uint64_t{1} << (index % kSlots));
}

}  // namespace weft::timer
