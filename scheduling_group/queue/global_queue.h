// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GlobalQueue: the queue that all workers of a group share. It has two levels, each first in, first out: a bounded
// lock-free ring (run_queue.h), followed by the fibers that found the ring full (OverflowList).
//
//   woken   fibers whose wait was ended from outside the group: by a timer, a plain thread or a fiber of another group;
//           and those that the end of their wait has brought from another group (idle/adoption.h)
//   normal  new fibers, those that yielded, those that a worker had no room for or woke in a batch
//
// A worker takes woken fibers first and fills up with normal ones; every kNormalFirstEvery-th time it is the other way
// round. A woken fiber is late already, has a stack, and may hold locks: behind 50,000 new fibers timers were 57 ms
// late, before them 3 (bench/workload --workload=sleepers, first round). Fibers that a worker's own I/O poll wakes are
// normal: a server that accepts requests before it begins those it has accepted drowns.
//
// A fiber's cache lines are prefetched some fibers before it runs: a miss takes 100 ns, a short fiber 10 to 50.
//
// Invariants
//   GQ1  A fiber pushed is popped exactly once, and Push() and PushWoken() never fail.
//   GQ2  A fiber pushed before a full fence is reported by HasWork() after a full fence that follows it, until it is
//        popped. (This holds for each level; fibers do not change levels.)
//   GQ3  One thread's pushes into a level leave in their order.
//   GQ4  Neither level starves: one of kNormalFirstEvery visits takes normal fibers first. A group of one worker has
//        one level.
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_GLOBAL_QUEUE_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_GLOBAL_QUEUE_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/thread/cpu.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/run_queue.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

// These three are always inlined: GCC takes a function that only prefetches for one without effect, and drops calls to
// it. This one: any fiber, even one that has ended; nullptr, too, hence the integer arithmetic. The others: the holder
// of the fibers.
WEFT_ALWAYS_INLINE void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const auto callable = reinterpret_cast<std::uintptr_t>(fiber) + sizeof(FiberEntity) - base::kCacheLineSize;
  __builtin_prefetch(fiber, 1);  // state, context, link
  __builtin_prefetch(reinterpret_cast<const void*>(callable), 0);
}

// Prefetches what a suspended fiber reads when it goes on: its stack from the stack pointer up, as far as a shallow
// one's frames go (540 bytes where the start procedure sleeps), and the field that the end of a wait writes.
WEFT_ALWAYS_INLINE void PrefetchStack(const FiberEntity* fiber) noexcept {
  if (!fiber->has_stack()) return;
  constexpr std::size_t kBytes = 9 * base::kCacheLineSize;
  __builtin_prefetch(&fiber->current_wait, 1);
  const auto sp = reinterpret_cast<std::uintptr_t>(fiber->context.saved_stack_pointer());
  const auto end = std::min(sp + kBytes, reinterpret_cast<std::uintptr_t>(fiber->stack_top()));
  for (std::uintptr_t line = sp / base::kCacheLineSize * base::kCacheLineSize; line < end;
       line += base::kCacheLineSize) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 1);
  }
}

// Prefetches several fibers that the caller will run one after the other. The first line of each stack goes before the
// others: a page long unused misses the TLB, and misses close to each other overlap (docs/decisions/006).
WEFT_ALWAYS_INLINE void PrefetchShare(FiberEntity* const* fibers, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) PrefetchFiber(fibers[i]);
  for (std::size_t i = 0; i < count; ++i) {
    if (fibers[i]->has_stack()) __builtin_prefetch(fibers[i]->context.saved_stack_pointer(), 1);
  }
  for (std::size_t i = 0; i < count; ++i) PrefetchStack(fibers[i]);
}

// The visiting worker writes it, on a line of its own. relaxed throughout: statistics, nothing acts on them.
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

  // False: the ring is full, or fibers wait behind it.
  [[nodiscard]] bool TryPush(FiberEntity* fiber) noexcept { return overflow_.Empty() && queue_.TryPush(fiber); }
  void Push(FiberEntity* const* fibers, std::size_t count);
  // As TryPush() and Push(), and a full fence.
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
  // Pops, in one step, an equal share for one of `sharers`: at least one if there is one, at most `at_most`.
  [[nodiscard]] std::size_t PopShare(FiberEntity** fibers, unsigned sharers, std::uint32_t at_most) noexcept;

  // The callers' fences order it. It reads the list before the ring, since fibers move from the list to the ring.
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
  std::atomic<std::size_t> overflow_count_{0};  // fibers that ever entered the list
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
  // As TryPush(), Push() and PushWoken(), and a full fence.
  [[nodiscard]] bool TryPushAndFence(FiberEntity* fiber) noexcept { return normal_.TryPushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber) { normal_.PushAndFence(fiber); }
  WEFT_ALWAYS_INLINE void PushWokenAndFence(FiberEntity* fiber) { woken_level_->PushAndFence(fiber); }
  void PushWoken(FiberEntity* const* fibers, std::size_t count) { woken_level_->Push(fibers, count); }
  WEFT_ALWAYS_INLINE void PushWoken(FiberEntity* fiber) {
    if (!woken_level_->TryPush(fiber)) [[unlikely]] {
      woken_level_->Push(&fiber, 1);
    }
  }

  // For a group of one worker. nullptr: empty.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* PopAlone() noexcept { return normal_.Pop(); }
  // The first fiber that another group may run: of the normal ones, which have no stack to take along, then of the
  // woken. Group-local fibers on the way go behind the rest of their level, so that they hide none, and *must_notify is
  // set. Each level is searched once, no deeper than kMostTries. nullptr: none was found.
  [[nodiscard]] FiberEntity* Steal(bool* must_notify) noexcept;
  // Pops an equal share of each level, as QueueLevel does; together at most `at_most`. *times counts the visits.
  [[nodiscard]] std::size_t PopShare(FiberEntity** fibers, std::uint32_t at_most, std::uint32_t* times) noexcept;

  // The callers' fences order it.
  bool HasWork() const noexcept { return normal_.HasWork() || woken_.HasWork(); }
  // These three: of the normal level, which alone refuses.
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

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_GLOBAL_QUEUE_H_
