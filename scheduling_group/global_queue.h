// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GlobalQueue: the queue that all workers of a group share, in two lanes, each first in, first out: a bounded lock-free
// ring (run_queue.h), and behind it, in order, what found the ring full (overflow_list.h).
//
//   woken   fibers whose wait was ended by somebody who is no worker of the group: a timer, a plain thread, a fiber of
//           another group
//   others  new fibers, those that yielded, those that a worker could not keep to itself or woke many at once
//
// A worker takes from the woken first and fills up with the others; every kOthersFirstEvery-th time it is the other way
// round. A woken fiber is late already, has a stack, and may hold locks that others wait for; a new one has nothing yet
// and is mostly one of many. Behind 50,000 new fibers, whose stacks the kernel has to make, timers were 57 ms late;
// before them 3 (bench/workload --workload=sleepers, first round). What a worker's own poll of I/O wakes has no such
// right (but for a fiber that another group has stolen meanwhile): to take in requests before those that were taken in
// have begun is how servers drown.
//
// Invariants
//   GQ1  A fiber pushed is popped exactly once, and Push() and PushWoken() never fail.
//   GQ2  A fiber pushed before a full fence is reported by HasWork() after a full fence that follows it, until it is
//        popped. (Of each lane; fibers do not change lanes.)
//   GQ3  One thread's pushes into a lane leave in their order.
//   GQ4  Neither lane starves: of kOthersFirstEvery times that a worker takes from here one is the others' first, and
//        the rest the woken's. In a group of one worker there is one lane only.
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

class QueueLane {
 public:
  QueueLane(std::size_t capacity, int node);

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
  std::size_t Room() const noexcept { return overflow_.Empty() ? queue_.capacity() - queue_.Size() : 0; }
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
  // capacity: of each lane's ring. sharers: the workers.
  GlobalQueue(std::size_t capacity, unsigned sharers, int node);

  // Into the others' lane. False: its ring is full, or fibers wait behind it.
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept { return others_.TryPush(fiber); }
  void Push(FiberEntity* const* fibers, std::size_t count) { others_.Push(fibers, count); }
  WEFT_ALWAYS_INLINE void Push(FiberEntity* fiber) {
    if (!others_.TryPush(fiber)) [[unlikely]] {
      others_.Push(&fiber, 1);
    }
  }
  // As their namesakes, and a full fence.
  [[nodiscard]] bool TryPushAndFence(FiberEntity* fiber) noexcept { return others_.TryPushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber) { others_.PushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushWokenAndFence(FiberEntity* fiber) { woken_lane_->PushAndFence(fiber); }
  void PushWoken(FiberEntity* const* fibers, std::size_t count) { woken_lane_->Push(fibers, count); }
  WEFT_ALWAYS_INLINE void PushWoken(FiberEntity* fiber) {
    if (!woken_lane_->TryPush(fiber)) [[unlikely]] {
      woken_lane_->Push(&fiber, 1);
    }
  }

  // By the worker of a group that has one. nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* PopAlone() noexcept { return others_.Pop(); }
  // The first that another group may have: of the others, which cost it no stack, then of the woken. Group-local fibers
  // that are met on the way go behind the rest of their lane, so that they hide none, and *in_sight_again is set. Each
  // lane is searched once from end to end, but no deeper than kMostTries. nullptr: none was found.
  [[nodiscard]] FiberEntity* Steal(bool* in_sight_again) noexcept;
  // From each lane so many that what is there is spread over the sharers, at least one if there is one, at most
  // `at_most` of both. *times: the worker's, counts. Returns how many.
  [[nodiscard]] std::size_t PopShare(FiberEntity** fibers, std::uint32_t at_most, std::uint32_t* times) noexcept;

  // The callers' fences order it.
  bool HasWork() const noexcept { return others_.HasWork() || woken_.HasWork(); }
  // Of the lane that may refuse.
  bool Full() const noexcept { return others_.Full(); }
  bool HalfEmpty() const noexcept { return others_.HalfEmpty(); }
  std::size_t Room() const noexcept { return others_.Room(); }
  std::size_t Size() const noexcept { return others_.Size() + woken_.Size(); }  // an estimate
  std::size_t overflow_count() const noexcept { return others_.overflow_count() + woken_.overflow_count(); }
  std::array<std::span<const std::byte>, 2> slots() const { return {others_.slots(), woken_.slots()}; }

  static constexpr std::size_t kMostTries = 64;

 private:
  static constexpr std::uint32_t kOthersFirstEvery = 4;

  QueueLane others_;
  QueueLane woken_;
  QueueLane* const woken_lane_;  // the others', in a group of one worker
  const unsigned sharers_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GLOBAL_QUEUE_H_
