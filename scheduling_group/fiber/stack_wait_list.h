// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackWaitList: the fibers of a group that found no stack (SG2 in scheduling_group.h).
//
// Invariants
//   SWL1  First in, first out. A fiber that can never get its stack hides no other one: Take() removes it, and the
//         group queues it again behind the ready ones.
//   SWL2  Take() may overlook a fiber added before: Empty() is a relaxed load, so that giving back a stack costs
//         nothing while no fiber waits. An idle worker's retry finds it (SG2).
// Any thread. Lock order: lock_ is held alone (base/thread/spin_lock.h).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_STACK_WAIT_LIST_H_
#define WEFT_SCHEDULING_GROUP_FIBER_STACK_WAIT_LIST_H_

#include <atomic>
#include <cstddef>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

class StackWaitList {
 public:
  bool Empty() const noexcept { return count_.load(std::memory_order_relaxed) == 0; }

  // The caller owns the fiber.
  void Add(FiberEntity* fiber) noexcept {
    base::SpinLockGuard guard(lock_);
    fiber->next = nullptr;
    (first_ == nullptr ? first_ : last_->next) = fiber;
    last_ = fiber;
    count_.fetch_add(1, std::memory_order_relaxed);  // SWL2
  }

  // The oldest fiber, which the caller then owns, or nullptr.
  [[nodiscard]] WEFT_ALWAYS_INLINE FiberEntity* Take() noexcept {
    if (Empty()) [[likely]] {
      return nullptr;
    }
    return TakeFirst();
  }

 private:
  WEFT_NOINLINE FiberEntity* TakeFirst() noexcept {
    base::SpinLockGuard guard(lock_);
    FiberEntity* fiber = first_;
    if (fiber == nullptr) return nullptr;
    first_ = fiber->next;
    count_.fetch_sub(1, std::memory_order_relaxed);
    return fiber;
  }

  std::atomic<std::size_t> count_{0};
  base::SpinLock lock_;
  FiberEntity* first_ WEFT_GUARDED_BY(lock_) = nullptr;
  FiberEntity* last_ WEFT_GUARDED_BY(lock_) = nullptr;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_STACK_WAIT_LIST_H_
