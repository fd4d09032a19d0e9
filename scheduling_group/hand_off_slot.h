// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HandOffSlot: the one fiber that a worker runs next, ahead of its queues. Of a worker, for a fiber woken by the fiber
// that runs there: message passing stays on one core. And for one that starts fibers though the queue is full: it goes
// on as soon as the fiber that runs in its place lets it, so that trees of fibers larger than the queue are run depth
// first, with few stacks.
//
// Invariants
//   HS1  Only its worker fills a slot; its worker or another one empties it, by an exchange, so once.
//   HS2  A slot's fiber waits at most `kHandOffPatience` * 2 while a worker of the group is idle: filling the slot is
//        followed by a notification like any push, a spinner takes what it saw unchanged (same ticket) for
//        kHandOffPatience, and no worker sleeps while a slot is full (HasWork).
//   HS3  A slot is served at most kMaxHandOffs times in a row while other fibers wait for the worker: ping-pong starves
//        nobody. The policy that owns the slot counts.
//
// Rejected: to take a slot's fiber at first sight: it would be fetched to another core, with its message, a few
// nanoseconds before its own worker comes to it.
#ifndef WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_
#define WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "weft/base/atomic.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// A few microseconds, well above the 50-100 ns that a fiber of a message-passing pair runs between two hand-offs.
inline constexpr std::chrono::microseconds kHandOffPatience{3};
inline constexpr std::uint32_t kMaxHandOffs = 16;

class alignas(base::kCacheLineSize) HandOffSlot {
 public:
  // Its worker. False: taken.
  [[nodiscard]] bool TryFill(FiberEntity* fiber) noexcept {
    // relaxed: only we fill it (HS1).
    if (fiber_.load(std::memory_order_relaxed) != nullptr) return false;
    // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
    ticket_.store(ticket_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // release: publishes the fiber. Pairs with the acquire exchange in Take().
    fiber_.store(fiber, std::memory_order_release);
    return true;
  }

  // The same, and a full fence.
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryFillAndFence(FiberEntity* fiber) noexcept {
    if (fiber_.load(std::memory_order_relaxed) != nullptr) return false;
    ticket_.store(ticket_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    fiber_.exchange(fiber, std::memory_order_seq_cst);  // One instruction, instead of a store and a fence.
    base::FenceAfterReadModifyWrite();
    return true;
  }

  // Any worker. nullptr: empty.
  [[nodiscard]] FiberEntity* Take() noexcept {
    if (fiber_.load(std::memory_order_relaxed) == nullptr) return nullptr;  // Saves the exchange.
    // acquire: pairs with the release in TryFill().
    return fiber_.exchange(nullptr, std::memory_order_acquire);
  }

  // relaxed, both: ordered by the callers' fences, or for heuristics.
  bool Full() const noexcept { return fiber_.load(std::memory_order_relaxed) != nullptr; }
  std::uint32_t ticket() const noexcept { return ticket_.load(std::memory_order_relaxed); }

 private:
  std::atomic<FiberEntity*> fiber_{nullptr};
  std::atomic<std::uint32_t> ticket_{0};  // counts fillings
};

// By the spinning worker `self`: a fiber that another one has left in its slot for kHandOffPatience (HS2). Each desk
// has a member `slot`; its index is its worker's.
template <class Desk>
FiberEntity* TakeNeglectedHandOff(std::span<Desk> desks, unsigned self, SpinMemory* memory) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = memory->seen.empty();
  if (!first && now - memory->sampled_at < kHandOffPatience) return nullptr;  // Too early to tell.
  if (first) memory->seen.assign(desks.size(), 0);
  memory->sampled_at = now;
  memory->active = false;
  for (unsigned other = 0; other < desks.size(); ++other) {
    if (other == self) continue;
    HandOffSlot& slot = desks[other].slot;
    // A heuristic. Take() takes whatever is there then.
    const std::uint32_t ticket = slot.ticket();
    const bool full = slot.Full();
    if (!first && ticket == memory->seen[other] && full) {
      if (FiberEntity* fiber = slot.Take()) return fiber;
    }
    if (full || (!first && ticket != memory->seen[other])) memory->active = true;
    memory->seen[other] = ticket;
  }
  return nullptr;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_
