// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HandOffWatch: how idle workers of a group look after the hand-off slots of the others (hand_off_slot.h): they take
// what a slot's worker does not get to, and where it gets to all of it they make it cheaper for that worker.
//
//   spinning worker:  look at the tickets every kHandOffPatience
//     the slot is full, same ticket as before      take its fiber: its worker runs a long one
//     fibers are handed over without pause, for
//       kWatchAfter                                watch all slots, until one is neglected or this worker stops
//                                                  spinning, for whatever reason
//
// One worker at a time is the keeper of the slots: the one who takes from a slot, for that moment, or the one who
// watches, all the time.
//
// Invariants
//   HW1  Who empties or watches another worker's slot is the keeper, and keepers see what former ones did. Hence none
//        takes from a slot that is watched, or whose watch has ended without the HeavyFence.
//   HW2  A watcher is counted as a spinner from before its watch to after its end (HS4).
//   HW3  A watch begins after kWatchAfter of hand-overs without pause, and costs a HeavyFence when it ends: so there
//        are at most a thousand of these in a second, and none where fibers are handed over now and then.
//
// While the kernel has stopped the keeper nobody takes from slots. That is a few nanoseconds of a thief's time, and a
// watch otherwise: on a machine with fewer CPUs than workers a fiber in a slot, whose worker runs a long one, then
// waits until the watcher has a CPU again; if nobody watched, for the next worker that looks.
#ifndef WEFT_SCHEDULING_GROUP_HAND_OFF_WATCH_H_
#define WEFT_SCHEDULING_GROUP_HAND_OFF_WATCH_H_

#include <chrono>
#include <cstdint>
#include <span>

#include "weft/base/asymmetric_fence.h"
#include "weft/base/atomic.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/hand_off_slot.h"
#include "weft/scheduling_group/spin_memory.h"

namespace weft::scheduling_group {

class HandOffWatch {
 public:
  // Before there are workers: the kernel is asked now for what a watch needs, since it may take its time.
  HandOffWatch() noexcept { (void)base::HasHeavyFence(); }

  // Each desk has a member `slot`; its index is its worker's.

  // By the spinning worker `self`: a fiber that another one has left in its slot for kHandOffPatience (HS2). May begin
  // or end a watch.
  template <class Desk>
  FiberEntity* TakeNeglected(std::span<Desk> desks, unsigned self, SpinMemory* memory);

  // By a spinning worker that called TakeNeglected(), before it stops to be counted as a spinner.
  template <class Desk>
  void EndSpin(std::span<Desk> desks, SpinMemory* memory) noexcept {
    if (WEFT_UNLIKELY(memory->watching)) End(desks, memory);
  }

  // Any worker, of another one's slot. nullptr: it is empty, or just now it may not be emptied.
  FiberEntity* TryTake(HandOffSlot* slot) noexcept {
    if (!slot->Full() || !TryKeep()) return nullptr;
    FiberEntity* fiber = slot->TakeAsKeeper();
    StopKeeping();
    return fiber;
  }

  // --- Parts of TakeNeglected() ---

  // By the worker `self`, which spins. False: there is a keeper, or the kernel has no HeavyFence.
  template <class Desk>
  bool TryBegin(std::span<Desk> desks, unsigned self, SpinMemory* memory) noexcept;
  template <class Desk>
  void End(std::span<Desk> desks, SpinMemory* memory) noexcept;

 private:
  static constexpr std::chrono::milliseconds kWatchAfter{1};
  // "Without pause": at least one in so long, in one slot.
  static constexpr std::chrono::nanoseconds kSteady{1500};

  // acquire and release: what keepers did (HW1).
  [[nodiscard]] bool TryKeep() noexcept {
    return !kept_.load(std::memory_order_relaxed) && !kept_.exchange(true, std::memory_order_acquire);
  }
  void StopKeeping() noexcept { kept_.store(false, std::memory_order_release); }

  alignas(base::kCacheLineSize) base::Atomic<bool> kept_{false};
};

template <class Desk>
FiberEntity* HandOffWatch::TakeNeglected(std::span<Desk> desks, unsigned self, SpinMemory* memory) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) {
    memory->seen.assign(desks.size(), 0);
    memory->steady_since = now;
  }
  const auto elapsed = now - memory->sampled_at;
  memory->sampled_at = now;
  memory->active = false;
  bool steady = false;
  bool neglected = false;
  for (unsigned other = 0; other < desks.size(); ++other) {
    if (other == self) continue;
    HandOffSlot& slot = desks[other].slot;
    // A heuristic. TryTake() takes whatever is there then.
    const std::uint32_t ticket = slot.ticket();
    const bool full = slot.Full();
    const std::uint32_t fillings = first ? 0 : ticket - memory->seen[other];
    memory->seen[other] = ticket;
    if (!first && full && fillings == 0) {
      neglected = true;
      // In a watch at second sight: it may be an interrupt.
      if (!memory->watching || memory->neglected) {
        if (memory->watching) End(desks, memory);
        if (FiberEntity* fiber = TryTake(&slot)) return fiber;
      }
    }
    memory->active |= full || fillings != 0;
    steady |= fillings * kSteady >= elapsed;
  }
  memory->neglected = neglected;
  if (!steady) memory->steady_since = now;
  if (!memory->watching && now - memory->steady_since >= kWatchAfter) (void)TryBegin(desks, self, memory);
  return nullptr;
}

template <class Desk>
bool HandOffWatch::TryBegin(std::span<Desk> desks, unsigned self, SpinMemory* memory) noexcept {
  if (!base::HasHeavyFence() || !TryKeep()) return false;
  memory->watching = true;
  for (unsigned other = 0; other < desks.size(); ++other) {
    if (other != self) desks[other].slot.BeginWatch();
  }
  return true;
}

template <class Desk>
void HandOffWatch::End(std::span<Desk> desks, SpinMemory* memory) noexcept {
  for (Desk& desk : desks) desk.slot.EndWatch();
  base::HeavyFence();  // Pairs with the LightFences in HandOffSlot.
  StopKeeping();
  memory->watching = false;
  memory->steady_since = memory->sampled_at;  // HW3
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_HAND_OFF_WATCH_H_
