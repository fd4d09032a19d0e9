// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HandOffSlot: the one fiber that a worker runs next, ahead of its queues. Of a worker, for a fiber woken by the fiber
// that runs there: message passing stays on one core. And for one that starts fibers though the queue is full: it goes
// on as soon as the fiber that runs in its place lets it, so that trees of fibers larger than the queue are run depth
// first, with few stacks.
//
// A slot is open, or watched (hand_off_watch.h). Of an open one others may take the fiber at any time: so its worker
// empties it by an exchange, and makes a full fence after filling it, in case that others are about to sleep. Where two
// fibers do little else than wake each other, and nobody else wants them, that is a third of what a hand-over costs. A
// worker that spins meanwhile watches such a slot: then nobody else may take from it, and its worker uses plain loads
// and stores.
//
//   its worker fills it            its worker empties it         the watch ends
//   -------------------            ---------------------         --------------
//   store the fiber                taking_ = true                watched_ = false
//   LightFence                     LightFence                    HeavyFence
//   look at watched_: if it has    look at watched_: if it has   look at the slot; if taking_ is
//     ended, full fence, and see     ended, exchange               false, others may take from it
//     who sleeps                   read the fiber, store nullptr   again, by an exchange
//                                  taking_ = false
//
// Invariants
//   HS1  Only its worker fills a slot; its worker or another one empties it, once. Outside of a watch by an exchange.
//        In a watch nobody but its worker; and when it ends while the worker is about to empty the slot, either
//        taking_ is seen after the HeavyFence, and others keep away, or the worker sees that it has ended. They do not
//        come before the HeavyFence, nor two at a time (HW1).
//   HS2  A slot's fiber waits at most `kHandOffPatience` * 2, in a watch * 3, while a worker of the group is idle:
//        filling the slot is followed by a notification like any push, a spinner takes what it saw unchanged (same
//        ticket) for kHandOffPatience, and who goes to sleep looks at the slots (HasWork), or a watcher stays. To this
//        come the HeavyFence that ends a watch, and the time for which the kernel has stopped the keeper.
//   HS3  A slot is served at most kMaxHandOffs times in a row while other fibers wait for the worker: ping-pong starves
//        nobody. The policy that owns the slot counts.
//   HS4  A fiber that was put into a watched slot without a fence is seen by the watcher, after the HeavyFence with
//        which it ends its watch while it is still counted as a spinner. So it is as good as a fiber whose producer has
//        made its fence and then seen that spinner (IW1, IW4 in idle_workers.h).
// Proven in tests/model/hand_off_slot_model.cc.
//
// Rejected: to take a slot's fiber at first sight: it would be fetched to another core, with its message, a few
// nanoseconds before its own worker comes to it. Slots that are always watched, by nobody: who takes from one, and
// who goes to sleep, would have to interrupt all CPUs of the process.
#ifndef WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_
#define WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_

#include <chrono>
#include <cstdint>

#include "weft/base/asymmetric_fence.h"
#include "weft/base/atomic.h"
#include "weft/base/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

// A few microseconds, well above the 50-100 ns that a fiber of a message-passing pair runs between two hand-offs.
inline constexpr std::chrono::microseconds kHandOffPatience{3};
inline constexpr std::uint32_t kMaxHandOffs = 16;

class alignas(base::kCacheLineSize) HandOffSlot {
 public:
  // Its worker. False: taken.
  [[nodiscard]] bool TryFill(FiberEntity* fiber) noexcept {
    // relaxed: only we fill it (HS1).
    if (fiber_.load(std::memory_order_relaxed) != nullptr) return false;
    CountFilling();
    // release: publishes the fiber. Pairs with the acquire exchanges in Take() and TakeAsKeeper().
    fiber_.store(fiber, std::memory_order_release);
    return true;
  }

  // The same, and a full fence, or none if it is watched (HS4).
  [[nodiscard]] WEFT_ALWAYS_INLINE bool TryFillAndFence(FiberEntity* fiber) noexcept {
    if (!watched_.load(std::memory_order_relaxed)) {
      if (fiber_.load(std::memory_order_relaxed) != nullptr) return false;
      CountFilling();
      fiber_.exchange(fiber, std::memory_order_seq_cst);  // One instruction, instead of a store and a fence.
      base::FenceAfterReadModifyWrite();
      return true;
    }
    if (!TryFill(fiber)) return false;
    base::LightFence();  // Pairs with the HeavyFence after EndWatch().
    // relaxed: the fences order it.
    if (!watched_.load(std::memory_order_relaxed)) base::ThreadFence(std::memory_order_seq_cst);
    return true;
  }

  // Its worker. nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Take() noexcept {
    if (fiber_.load(std::memory_order_relaxed) == nullptr) return nullptr;  // Saves the rest.
    if (watched_.load(std::memory_order_relaxed)) {
      taking_.store(true, std::memory_order_relaxed);
      base::LightFence();  // Pairs with the HeavyFence after EndWatch().
      // acquire: what the last one who took from it did. Pairs with the release in BeginWatch().
      if (watched_.load(std::memory_order_acquire)) {
        FiberEntity* fiber = fiber_.load(std::memory_order_relaxed);
        fiber_.store(nullptr, std::memory_order_relaxed);
        // release: the slot is empty. Pairs with the acquire in TakeAsKeeper().
        taking_.store(false, std::memory_order_release);
        return fiber;
      }
      taking_.store(false, std::memory_order_relaxed);
    }
    // acquire: pairs with the release in TryFill().
    return fiber_.exchange(nullptr, std::memory_order_acquire);
  }

  // --- The keeper of the group's slots (hand_off_watch.h) ---

  // Another worker's, not watched. nullptr: empty, or its worker is emptying it.
  [[nodiscard]] FiberEntity* TakeAsKeeper() noexcept {
    if (!Full()) return nullptr;
    // acquire: pairs with the release in Take().
    if (taking_.load(std::memory_order_acquire)) return nullptr;
    return fiber_.exchange(nullptr, std::memory_order_acquire);  // As in Take().
  }

  // release: what was done to it before. Pairs with the acquire in Take().
  void BeginWatch() noexcept { watched_.store(true, std::memory_order_release); }
  // A HeavyFence must follow before anybody takes from it. relaxed: that orders it.
  void EndWatch() noexcept { watched_.store(false, std::memory_order_relaxed); }

  // relaxed, both: ordered by the callers' fences, or for heuristics.
  [[nodiscard]] bool Full() const noexcept { return fiber_.load(std::memory_order_relaxed) != nullptr; }
  std::uint32_t ticket() const noexcept { return ticket_.load(std::memory_order_relaxed); }

 private:
  // relaxed: a spinner that reads an old ticket waits a little longer or takes the fiber a little early.
  void CountFilling() noexcept {
    ticket_.store(ticket_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  base::Atomic<FiberEntity*> fiber_{nullptr};
  base::Atomic<std::uint32_t> ticket_{0};  // counts fillings
  base::Atomic<bool> watched_{false};      // the keeper's to write
  base::Atomic<bool> taking_{false};       // its worker's to write
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_HAND_OFF_SLOT_H_
