// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GlobalQueue: the first-in-first-out queue that all workers of a group share: a bounded lock-free ring (run_queue.h),
// and behind it, in order, what found the ring full (overflow_list.h).
//
// Invariants
//   GQ1  A fiber pushed is popped exactly once, and Push() never fails.
//   GQ2  A fiber pushed before a full fence is reported by HasWork() after a full fence that follows it, until it is
//        popped.
//   GQ3  One thread's pushes leave in their order.
//
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_
#define WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/numa/node_memory.h"
#include "weft/scheduling_group/overflow_list.h"
#include "weft/scheduling_group/prefetch_fiber.h"
#include "weft/scheduling_group/run_queue.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// Kept by the worker that visits, on a line of its own. relaxed throughout: statistics, no one acts on them.
class QueueCounters {
 public:
  void CountVisit(std::size_t fibers) noexcept {
    visits_.store(visits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    fibers_.store(fibers_.load(std::memory_order_relaxed) + fibers, std::memory_order_relaxed);
  }
  QueueCounts Read() const noexcept {
    return {.visits = visits_.load(std::memory_order_relaxed), .fibers = fibers_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> visits_{0};
  std::atomic<std::uint64_t> fibers_{0};
};

class GlobalQueue {
 public:
  GlobalQueue(std::size_t capacity, int node);

  // False: the ring is full, or others wait behind it.
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept { return overflow_.Empty() && queue_.TryPush(fiber); }
  void Push(FiberEntity* const* fibers, std::size_t count);

  // nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Pop() noexcept {
    FiberEntity* fiber = queue_.TryPop();
    if (fiber != nullptr) PrefetchFiber(queue_.Peek(kPrefetchAhead));
    if (!overflow_.Empty()) [[unlikely]] {
      return PopPastRing(fiber);
    }
    return fiber;
  }
  // So many that what is there is spread over `sharers`, at least one if there is one, at most `at_most`, in one step.
  // Returns how many.
  [[nodiscard]] std::size_t PopShare(FiberEntity** fibers, unsigned sharers, std::uint32_t at_most) noexcept;

  void PrefetchForPush() const noexcept { queue_.PrefetchForPush(); }
  void PrefetchForPop() const noexcept { queue_.PrefetchForPop(); }

  // The callers' fences order it. The list before the ring: fibers move from the one to the other.
  bool HasWork() const noexcept { return !overflow_.EmptiedInto(queue_); }
  bool Full() const noexcept { return !overflow_.Empty() || queue_.Size() >= queue_.capacity(); }
  bool HalfEmpty() const noexcept { return overflow_.Empty() && queue_.Size() <= queue_.capacity() / 2; }
  std::size_t Room() const noexcept { return overflow_.Empty() ? queue_.capacity() - queue_.Size() : 0; }
  std::size_t Size() const noexcept { return queue_.Size() + overflow_.Size(); }  // an estimate
  // More than one, since each of several threads that push at the same time sees the others' fibers.
  static constexpr std::size_t kFew = 4;
  bool FewWait() const noexcept { return Size() <= kFew; }
  std::size_t overflow_count() const noexcept { return overflow_count_.load(std::memory_order_relaxed); }
  std::span<const std::byte> slots() const { return std::as_bytes(slots_.objects()); }

 private:
  static constexpr unsigned kPrefetchAhead = 2;

  FiberEntity* PopPastRing(FiberEntity* popped) noexcept;

  const numa::NodeArray<RunQueue::Slot> slots_;
  RunQueue queue_;
  OverflowList overflow_;
  std::atomic<std::size_t> overflow_count_{0};  // fibers that ever came to the list
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_
