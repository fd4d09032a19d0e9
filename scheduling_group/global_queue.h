// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// GlobalQueue: the queue that all workers of a group share, in two levels, each first in, first out: a bounded
// lock-free ring (run_queue.h), and behind it, in order, what found the ring full (overflow_list.h).
//
//   woken   fibers whose wait was ended by somebody who is no worker of the group: a timer, a plain thread, a fiber of
//           another group
//   normal  new fibers, those that yielded, those that a worker could not keep to itself or woke many at once
//
// A worker takes from the woken first and fills up with the normal ones; every kNormalFirstEvery-th time it is the
// other way round. A woken fiber is late already, has a stack, and may hold locks that others wait for; a new one has
// nothing yet and is mostly one of many. Behind 50,000 new fibers, whose stacks the kernel has to make, timers were 57
// ms late; before them 3 (bench/workload --workload=sleepers, first round). What a worker's own poll of I/O wakes has
// no such right (but for a fiber that another group has stolen meanwhile): to take in requests before those that were
// taken in have begun is how servers drown.
//
// Invariants
//   GQ1  A fiber pushed is popped exactly once, and Push() and PushWoken() never fail.
//   GQ2  A fiber pushed before a full fence is reported by HasWork() after a full fence that follows it, until it is
//        popped. (Of each level; fibers do not change levels.)
//   GQ3  One thread's pushes into a level leave in their order.
//   GQ4  Neither level starves: of kNormalFirstEvery times that a worker takes from here one takes the normal ones
//        first, and the rest the woken ones. In a group of one worker there is one level only.
//
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_
#define WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_

#include <array>
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

class QueueLevel {
 public:
  QueueLevel(std::size_t capacity, int node);

  // False: the ring is full, or others wait behind it.
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept { return overflow_.Empty() && queue_.TryPush(fiber); }
  void Push(FiberEntity* const* fibers, std::size_t count);
  // Both as their namesakes, and a full fence.
  [[nodiscard]] bool TryPushAndFence(FiberEntity* fiber) noexcept {
    return overflow_.Empty() && queue_.TryPushAndFence(fiber);
  }
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber) {
    if (!TryPushAndFence(fiber)) [[unlikely]] {
      Push(&fiber, 1);
      base::ThreadFence(std::memory_order_seq_cst);
    }
  }

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

  // The callers' fences order it. The list before the ring: fibers move from the one to the other.
  bool HasWork() const noexcept { return !overflow_.EmptiedInto(queue_); }
  bool Full() const noexcept { return !overflow_.Empty() || queue_.Size() >= queue_.capacity(); }
  bool HalfEmpty() const noexcept { return overflow_.Empty() && queue_.Size() <= queue_.capacity() / 2; }
  std::size_t RemainingCapacity() const noexcept { return overflow_.Empty() ? queue_.capacity() - queue_.Size() : 0; }
  std::size_t Size() const noexcept { return queue_.Size() + overflow_.Size(); }  // an estimate
  std::size_t CountReady(std::size_t at_most) const noexcept { return queue_.Count(at_most); }
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

class GlobalQueue {
 public:
  // capacity: of each level's ring. sharers: the workers.
  GlobalQueue(std::size_t capacity, unsigned sharers, int node);

  // Into the normal level. False: its ring is full, or fibers wait behind it.
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept { return normal_.TryPush(fiber); }
  void Push(FiberEntity* const* fibers, std::size_t count) { normal_.Push(fibers, count); }
  WEFT_ALWAYS_INLINE void Push(FiberEntity* fiber) {
    if (!normal_.TryPush(fiber)) [[unlikely]] {
      normal_.Push(&fiber, 1);
    }
  }
  // As their namesakes, and a full fence.
  [[nodiscard]] bool TryPushAndFence(FiberEntity* fiber) noexcept { return normal_.TryPushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber) { normal_.PushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushWokenAndFence(FiberEntity* fiber) { woken_level_->PushAndFence(fiber); }
  void PushWoken(FiberEntity* const* fibers, std::size_t count) { woken_level_->Push(fibers, count); }
  WEFT_ALWAYS_INLINE void PushWoken(FiberEntity* fiber) {
    if (!woken_level_->TryPush(fiber)) [[unlikely]] {
      woken_level_->Push(&fiber, 1);
    }
  }

  // By the worker of a group that has one. nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* PopAlone() noexcept { return normal_.Pop(); }
  // The first that another group may have: of the normal ones, which cost it no stack, then of the woken. Group-local
  // fibers that are met on the way go behind the rest of their level, so that they hide none, and *must_notify is set.
  // Each level is searched once from end to end, but no deeper than kMostTries. nullptr: none was found.
  [[nodiscard]] FiberEntity* Steal(bool* must_notify) noexcept;
  // From each level so many that what is there is spread over the sharers, at least one if there is one, at most
  // `at_most` of both. *times: the worker's, counts. Returns how many.
  [[nodiscard]] std::size_t PopShare(FiberEntity** fibers, std::uint32_t at_most, std::uint32_t* times) noexcept;

  // The callers' fences order it.
  bool HasWork() const noexcept { return normal_.HasWork() || woken_.HasWork(); }
  // Of the level that may refuse.
  bool Full() const noexcept { return normal_.Full(); }
  bool HalfEmpty() const noexcept { return normal_.HalfEmpty(); }
  std::size_t RemainingCapacity() const noexcept { return normal_.RemainingCapacity(); }
  std::size_t Size() const noexcept { return normal_.Size() + woken_.Size(); }  // an estimate
  std::size_t overflow_count() const noexcept { return normal_.overflow_count() + woken_.overflow_count(); }
  std::array<std::span<const std::byte>, 2> slots() const { return {normal_.slots(), woken_.slots()}; }

  static constexpr std::size_t kMostTries = 64;

 private:
  static constexpr std::uint32_t kNormalFirstEvery = 4;

  QueueLevel normal_;
  QueueLevel woken_;
  QueueLevel* const woken_level_;  // the normal one, in a group of one worker
  const unsigned sharers_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_
