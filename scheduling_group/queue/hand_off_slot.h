// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HandOffSlot: holds the fiber that a worker runs next, ahead of its queues. A fiber that wakes another one puts it
// there, so that message passing stays on one core. A fiber that starts another while the queue is full waits there
// until the new one waits or ends, so that a tree of fibers larger than the queue runs depth first, with few stacks.
//
// Invariants
//   HS1  Only its worker fills a slot, and only an empty one. Any worker of the group empties it, by an exchange.
//   HS2  While a worker of the group is idle, a fiber waits in a slot for about 2 * kHandOffPatience at most: a spinner
//        samples the slots every kHandOffPatience and takes a fiber that two samples find under the same ticket. Like
//        any push, filling a slot is followed by a full fence and a notification. No worker goes to sleep while a slot
//        is full (HasWork).
//   HS3  A worker serves its slot at most kMaxHandOffs times in a row while other fibers wait for it, so ping-pong
//        starves none. The policy that owns the slot counts.
// Proven in tests/model/hand_off_slot_model.cc; HS3 is tested in tests/scheduling_group/policy_test.cc.
//
// Rejected: taking a fiber at first sight (it moves to another core just before its own worker would have run it);
// slots biased to their worker until a spinner revokes the bias by membarrier(2) (saves 8 ns for a second protocol with
// six invariants: docs/decisions/001).
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_HAND_OFF_SLOT_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_HAND_OFF_SLOT_H_

#include <chrono>
#include <cstdint>
#include <span>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/idle/spin_memory.h"

namespace weft::scheduling_group {

class FiberEntity;

// Well above the 50 to 100 ns that a fiber of a message-passing pair runs between two hand-offs.
inline constexpr std::chrono::microseconds kHandOffPatience{3};
inline constexpr std::uint32_t kMaxHandOffs = 16;

class alignas(base::kCacheLineSize) HandOffSlot {
 public:
  // Its worker. False: the slot is full.
  [[nodiscard]] bool TryFill(FiberEntity* fiber) noexcept {
    if (Full()) return false;  // Only we fill it (HS1).
    CountFilling();
    // release: publishes the fiber. Pairs with the acquire in Take().
    fiber_.store(fiber, std::memory_order_release);
    return true;
  }

  // As TryFill(), and a full fence. One exchange costs less than a store and a fence.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryFillAndFence(FiberEntity* fiber) noexcept {
    if (Full()) return false;
    CountFilling();
    // seq_cst: publishes the fiber as in TryFill(), and FenceAfterReadModifyWrite() requires it.
    fiber_.exchange(fiber, std::memory_order_seq_cst);
    base::FenceAfterReadModifyWrite();
    return true;
  }

  // Any worker of the group. nullptr: the slot is empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Take() noexcept {
    if (!Full()) return nullptr;  // Saves the exchange.
    // acquire: pairs with the release in TryFill() and TryFillAndFence().
    return fiber_.exchange(nullptr, std::memory_order_acquire);
  }

  // relaxed, both: callers order them by fences, or use them for heuristics.
  [[nodiscard]] bool Full() const noexcept { return fiber_.load(std::memory_order_relaxed) != nullptr; }
  std::uint32_t ticket() const noexcept { return ticket_.load(std::memory_order_relaxed); }

 private:
  // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
  void CountFilling() noexcept {
    ticket_.store(ticket_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  base::Atomic<FiberEntity*> fiber_{nullptr};
  base::Atomic<std::uint32_t> ticket_{0};  // counts fillings
};

// By the spinning worker `self`, at the time `now`: takes a fiber that another worker has left in its slot for
// kHandOffPatience (HS2). nullptr: there is none. worker_queues[i].slot is the slot of worker i.
template <class WorkerQueues>
FiberEntity* TakeNeglectedHandOff(std::span<WorkerQueues> worker_queues, unsigned self,
                                  std::chrono::steady_clock::time_point now, SpinMemory* memory) {
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) memory->seen.assign(worker_queues.size(), 0);
  memory->sampled_at = now;
  memory->active = false;
  for (unsigned other = 0; other < worker_queues.size(); ++other) {
    if (other == self) continue;
    HandOffSlot& slot = worker_queues[other].slot;
    const std::uint32_t ticket = slot.ticket();
    const bool full = slot.Full();
    const bool changed = !first && ticket != memory->seen[other];
    memory->seen[other] = ticket;
    if (!first && full && !changed) {
      // The slot may have changed since; any fiber will do.
      if (FiberEntity* fiber = slot.Take()) return fiber;
    }
    memory->active |= full || changed;
  }
  return nullptr;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_HAND_OFF_SLOT_H_
