// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/queue/run_queue.h"

#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

std::size_t OverflowList::PushBehind(RunQueue& queue, FiberEntity* const* fibers, std::size_t count) noexcept {
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

void OverflowList::Refill(RunQueue& queue) noexcept {
  base::SpinLockGuard guard(lock_);
  while (head_ != nullptr) {
    FiberEntity* fiber = head_;
    FiberEntity* next = fiber->next;  // Read before the push: after it the fiber is no longer ours.
    if (!queue.TryPush(fiber)) break;
    RemoveFront(next);
  }
}

void OverflowList::RemoveFront(FiberEntity* next) noexcept {
  head_ = next;
  if (head_ == nullptr) tail_ = nullptr;
  // release: pairs with the acquire in EmptiedInto().
  count_.store(count_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

}  // namespace weft::scheduling_group
