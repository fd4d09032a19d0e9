// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OverflowList: ready fibers that found the run queue full, linked through themselves: unbounded, without allocation.
//
// It keeps the order: while the list is not empty all pushes go to it, and only Refill() moves fibers from its front
// into the run queue. `count_` falls after the fiber is in the run queue, both under the lock, so a producer that sees
// zero comes after all fibers of the list.
// Any thread.
// Proven in tests/model/overflow_list_model.cc.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_OVERFLOW_LIST_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_OVERFLOW_LIST_H_

#include <cstddef>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/run_queue.h"

namespace weft::scheduling_group {

class OverflowList {
 public:
  // relaxed: a guess for the fast path; Append() and Refill() decide under the lock. HasWork() callers fence.
  bool Empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }
  // As Empty(), before a look at the run queue: a thread that sees the list emptied sees its fibers in the queue.
  // acquire: pairs with the release in RemoveFront().
  bool EmptiedInto(const RunQueue& queue) const noexcept {
    return count_.load(std::memory_order_acquire) == 0 && queue.Empty();
  }
  std::size_t Size() const noexcept { return count_.load(std::memory_order_relaxed); }

  // Pushes the fibers behind all others: into `queue` while the list is empty and the queue has room, else into the
  // list. Returns how many went into the list.
  std::size_t PushBehind(RunQueue& queue, FiberEntity* const* fibers, std::size_t count) noexcept {
    base::SpinLockGuard guard(lock_);
    std::size_t pushed = 0;
    if (head_ == nullptr) {
      while (pushed < count) {
        const std::size_t n = queue.PushSome(fibers + pushed, count - pushed);
        if (n == 0) break;
        pushed += n;
      }
    }
    for (std::size_t i = pushed; i < count; ++i) {
      fibers[i]->next = nullptr;
      (head_ == nullptr ? head_ : tail_->next) = fibers[i];
      tail_ = fibers[i];
    }
    count_.store(count_.load(std::memory_order_relaxed) + (count - pushed), std::memory_order_relaxed);
    return count - pushed;
  }

  // Moves fibers from the front into `queue`, as many as there is room for.
  void Refill(RunQueue& queue) noexcept {
    base::SpinLockGuard guard(lock_);
    while (head_ != nullptr) {
      FiberEntity* fiber = head_;
      FiberEntity* next = fiber->next;  // Read before the push: after it the fiber is no longer ours.
      if (!queue.TryPush(fiber)) break;
      RemoveFront(next);
    }
  }

 private:
  void RemoveFront(FiberEntity* next) noexcept WEFT_REQUIRES(lock_) {
    head_ = next;
    if (head_ == nullptr) tail_ = nullptr;
    // release: pairs with the acquire in EmptiedInto().
    count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
  }

  base::SpinLock lock_;
  FiberEntity* head_ WEFT_GUARDED_BY(lock_) = nullptr;
  FiberEntity* tail_ WEFT_GUARDED_BY(lock_) = nullptr;
  base::Atomic<std::size_t> count_{0};  // written under the lock
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_OVERFLOW_LIST_H_
