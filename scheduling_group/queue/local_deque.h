// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LocalDeque: the fibers that a worker's fibers have started. The worker takes the newest, thieves the oldest: a tree
// of fibers runs depth first, with few stacks, and a thief takes the largest subtree. A bounded ring: positions count
// up for ever, position p uses slot p % kCapacity, and the fibers are at top_ .. bottom_ - 1.
//
//   the owner pushes       slot[bottom] = fiber; bottom + 1                         no locked instruction
//   the owner pops         bottom - 1; full fence; look at top                      a compare-exchange for the last one
//   a thief takes one      look at top; full fence; look at bottom; read the slot; compare-exchange top to top + 1
//   the owner takes many   as a thief, top to top + n: only it moves bottom_
//
// Invariants
//   LD1  Only the owner moves bottom_ and writes slots; it writes position p's only when top_ > p - kCapacity.
//   LD2  A fiber pushed is taken once. When the owner goes down to position p and a thief goes up to it, the one whose
//        fence is second sees the other. The compare-exchange of top_ decides who gets the last fiber.
//   LD3  A fiber pushed before a full fence is seen by Empty() after a full fence that follows it, until it is taken.
//
// Push(), PopNewest(), PopOldest(): the owner. Steal(), Empty(), Size(): any thread.
// Proven in tests/model/local_deque_model.cc.
// Source: D. Chase and Y. Lev, Dynamic circular work-stealing deque, SPAA 2005; N. M. Le and others, Correct and
// efficient work-stealing for weak memory models, PPoPP 2013. (The release on each store to bottom_ is ours: C++20 has
// no release sequence through the owner's own relaxed stores.)
// Rejected: stealing half in one step (the owner needs a locked instruction for each pop that a thief's half may
// reach); top and bottom in one word (a locked instruction for each push).
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_DEQUE_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_DEQUE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

template <std::int64_t kDequeCapacity>
class alignas(base::kCacheLineSize) LocalDeque {
 public:
  static constexpr std::int64_t kCapacity = kDequeCapacity;
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

  // The owner. False: full.
  [[nodiscard]] bool Push(FiberEntity* fiber) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);  // Ours (LD1).
    if (bottom - top_seen_ == kCapacity) {
      // acquire: the takers' reads of the slot are over. Pairs with the release in Steal().
      top_seen_ = top_.load(std::memory_order_acquire);
      if (bottom - top_seen_ == kCapacity) return false;
    }
    SlotAt(bottom).store(fiber, std::memory_order_relaxed);
    // release: publishes the slot and the fiber. Pairs with the acquire in Steal().
    bottom_.store(bottom + 1, std::memory_order_release);
    return true;
  }

  // The owner: the newest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* PopNewest() noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    // relaxed: top_ only grows, so an old value errs towards "not empty".
    if (top_.load(std::memory_order_relaxed) > bottom) return nullptr;
    // release, here and below: a thief that reads this value also sees the fibers beneath.
    bottom_.store(bottom, std::memory_order_release);
    // StoreLoad: we see a thief's top_, or it sees our bottom_ (LD2). Pairs with the fence in Steal().
    base::ThreadFence(std::memory_order_seq_cst);
    std::int64_t top = top_.load(std::memory_order_relaxed);
    if (top < bottom) return SlotAt(bottom).load(std::memory_order_relaxed);
    FiberEntity* fiber = nullptr;
    // The last one. relaxed: it is our own fiber, in our own slot.
    if (top == bottom && top_.compare_exchange_strong(top, top + 1, std::memory_order_relaxed)) {
      fiber = SlotAt(bottom).load(std::memory_order_relaxed);
    }
    bottom_.store(bottom + 1, std::memory_order_release);
    return fiber;
  }

  // The owner: up to `max` of the oldest, oldest first, in one step. Returns how many.
  [[nodiscard]] std::size_t PopOldest(FiberEntity** fibers, std::size_t max) noexcept {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    std::int64_t top = top_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      const std::int64_t n = std::min<std::int64_t>(bottom - top, static_cast<std::int64_t>(max));
      if (n <= 0) return 0;
      for (std::int64_t i = 0; i < n; ++i) fibers[i] = SlotAt(top + i).load(std::memory_order_relaxed);
      // relaxed: our own fibers, in our own slots.
      if (top_.compare_exchange_strong(top, top + n, std::memory_order_relaxed)) return static_cast<std::size_t>(n);
    }
  }

  // Any thread: the oldest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* Steal() noexcept {
    for (;;) {
      std::int64_t top = top_.load(std::memory_order_relaxed);
      // relaxed: an empty deque costs no fence.
      if (top >= bottom_.load(std::memory_order_relaxed)) return nullptr;
      // StoreLoad, in effect: if the owner read a top_ older than ours, we read the bottom_ that it had stored before
      // (LD2). Pairs with the fence in PopNewest().
      base::ThreadFence(std::memory_order_seq_cst);
      // acquire: we see the slot and the fiber. Pairs with the release in Push().
      if (top >= bottom_.load(std::memory_order_acquire)) return nullptr;
      FiberEntity* fiber = SlotAt(top).load(std::memory_order_relaxed);
      // release: our read of the slot is over. Pairs with the acquire in Push(), also through later takers' exchanges.
      if (top_.compare_exchange_strong(top, top + 1, std::memory_order_release, std::memory_order_relaxed)) {
        return fiber;
      }
    }
  }

  // relaxed: ordered by the callers' fences (LD3).
  bool Empty() const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);
    return bottom_.load(std::memory_order_relaxed) <= top;
  }
  // An estimate, 0 .. kCapacity. relaxed: either may be older than the other.
  std::size_t Size() const noexcept {
    const std::int64_t top = top_.load(std::memory_order_relaxed);
    return static_cast<std::size_t>(
        std::clamp<std::int64_t>(bottom_.load(std::memory_order_relaxed) - top, 0, kCapacity));
  }

 private:
  base::Atomic<FiberEntity*>& SlotAt(std::int64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position) % std::size_t{kCapacity}];
  }

  // The thieves' line and the owner's.
  base::Atomic<std::int64_t> top_{0};
  alignas(base::kCacheLineSize) base::Atomic<std::int64_t> bottom_{0};
  std::int64_t top_seen_ = 0;  // The owner's copy: spares it the thieves' line.
  alignas(base::kCacheLineSize) base::Atomic<FiberEntity*> slots_[std::size_t{kCapacity}]{};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_DEQUE_H_
