// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LocalRing: a few ready fibers that a worker keeps at hand, and that idle workers can still take: a bounded ring with
// one producer, the owner, whose pushes are plain stores, and many consumers. A pop moves `head_` by compare-exchange,
// which costs the owner little, since no other worker touches the line while all are busy.
//
// Invariants
//   LR1  Only the owner moves tail_ and writes slots; slot i is written for position p only when head_ > p - kCapacity.
//   LR2  A consumer that moves head_ from h to h + n has read the slots of h .. h + n - 1 as they were pushed: a slot
//        is overwritten only after head_ has passed it, and then the compare-exchange fails.
//   LR3  A fiber pushed before a full fence is seen by Empty() after a full fence that follows it.
//
// Push(), PushSome(): the owner. Pop(), PopHalf(), Empty(): any worker.
// Proven in tests/model/local_ring_model.cc.
// Source: the per-processor queues of Go's scheduler.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_RING_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_RING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

template <std::uint32_t kRingCapacity>
class alignas(base::kCacheLineSize) LocalRing {
 public:
  static constexpr std::uint32_t kCapacity = kRingCapacity;
  static_assert((kCapacity & (kCapacity - 1)) == 0, "a power of two");

  // The owner. False: full.
  [[nodiscard]] bool Push(FiberEntity* fiber) noexcept { return PushSome(&fiber, 1) == 1; }

  // The owner: the first of `fibers`, as many as there is room for, in one step. Returns how many.
  [[nodiscard]] WEFT_ALWAYS_INLINE std::uint32_t PushSome(FiberEntity* const* fibers, std::uint32_t count) noexcept {
    const std::uint32_t tail = tail_.load(std::memory_order_relaxed);  // Ours (LR1).
    // acquire: the consumers' reads of the slots are over. Pairs with the release in Take().
    const std::uint32_t capacity = kCapacity - (tail - head_.load(std::memory_order_acquire));
    const std::uint32_t pushed = std::min(count, capacity);
    if (pushed == 0) return 0;
    for (std::uint32_t i = 0; i < pushed; ++i) {
      slots_[(tail + i) % kCapacity].store(fibers[i], std::memory_order_relaxed);
    }
    // release: publishes the slots and the fibers. Pairs with the acquire in Take().
    tail_.store(tail + pushed, std::memory_order_release);
    return pushed;
  }

  // Any worker: the oldest fiber; nullptr: empty.
  [[nodiscard]] FiberEntity* Pop() noexcept {
    FiberEntity* fiber;  // Take() writes it before it knows that it has popped.
    return Take(&fiber, [](std::uint32_t) { return 1u; }) != 0 ? fiber : nullptr;
  }

  // Any worker: all fibers, oldest first. `fibers` has room for kCapacity. Returns how many.
  [[nodiscard]] std::uint32_t PopAll(FiberEntity** fibers) noexcept {
    return Take(fibers, [](std::uint32_t size) { return size; });
  }

  // Any worker: the older half, at least one, at most `max`.
  [[nodiscard]] std::uint32_t PopHalf(FiberEntity** fibers, std::uint32_t max = kCapacity) noexcept {
    return Take(fibers, [max](std::uint32_t size) { return std::min((size + 1) / 2, max); });
  }

  // relaxed: ordered by the callers' fences (LR3).
  bool Empty() const noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    return tail_.load(std::memory_order_relaxed) == head;
  }
  // An estimate, 0 .. kCapacity. relaxed: either may be older than the other.
  std::uint32_t Size() const noexcept {
    const std::uint32_t head = head_.load(std::memory_order_relaxed);
    const auto size = static_cast<std::int32_t>(tail_.load(std::memory_order_relaxed) - head);
    return static_cast<std::uint32_t>(std::clamp<std::int32_t>(size, 0, kCapacity));
  }

 private:
  template <class HowMany>
  std::uint32_t Take(FiberEntity** fibers, HowMany how_many) noexcept {
    std::uint32_t head = head_.load(std::memory_order_relaxed);  // A guess; the compare-exchange confirms it.
    for (;;) {
      // acquire: we see the slots and the fibers. Pairs with the release in PushSome().
      const std::uint32_t size = tail_.load(std::memory_order_acquire) - head;
      if (size == 0) return 0;
      if (size > kCapacity) {  // Our head_ is old, or our tail_ is older than head_.
        head = head_.load(std::memory_order_relaxed);
        continue;
      }
      const std::uint32_t n = how_many(size);
      for (std::uint32_t i = 0; i < n; ++i) {
        fibers[i] = slots_[(head + i) % kCapacity].load(std::memory_order_relaxed);
      }
      // release: our reads of the slots are over. Pairs with the acquire in PushSome(), also through later takers'
      // exchanges (a release sequence). No acquire: tail_ carries what we take, and a tail_ older than the head_ read
      // on failure shows as a size above kCapacity.
      if (head_.compare_exchange_strong(head, head + n, std::memory_order_release, std::memory_order_relaxed)) {
        return n;
      }
    }
  }

  base::Atomic<std::uint32_t> head_{0};
  base::Atomic<std::uint32_t> tail_{0};
  base::Atomic<FiberEntity*> slots_[kCapacity]{};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_LOCAL_RING_H_
