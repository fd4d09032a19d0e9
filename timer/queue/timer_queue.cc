// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/queue/timer_queue.h"

#include <algorithm>

namespace weft::timer {

TimerQueue::TimerQueue(Tick present) noexcept : present_(std::min(present, kLastTick)) {}

TimerQueue::Slot TimerQueue::FirstNear() const noexcept {
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

TimerQueue::Slot TimerQueue::FirstFar() const noexcept {
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

Tick TimerQueue::NextWakeup() const noexcept {
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

TimerNode* TimerQueue::PopAny() noexcept {
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

void TimerQueue::FetchAhead() noexcept {
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

void TimerQueue::TakeForRefiling(int ring) noexcept {
  TimerLink* from = &rings_[ring];
  TimerLink* to = &rings_[kRefile];
  MarkUsed(kRefile);
  to->next = from->next;
  to->prev = from->prev;
  to->next->prev = to;
  to->prev->next = to;
  MarkUnused(ring);
}

}  // namespace weft::timer
