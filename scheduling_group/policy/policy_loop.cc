// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_loop.h"

#include <utility>

namespace weft::scheduling_group {

void PolicyLoop::PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int /*worker*/) {
  base::SpinLockGuard guard(lock_);
  for (std::size_t i = 0; i < count; ++i) {
    fibers[i]->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = fibers[i];
    tail_ = fibers[i];
  }
  // relaxed: the lock carries the fibers; SP1 is the caller's fence.
  pushed_.store(pushed_.load(std::memory_order_relaxed) + count, std::memory_order_relaxed);
  if (reason != ReadyReason::kStarted) return;
  started_.store(started_.load(std::memory_order_relaxed) + count, std::memory_order_release);  // PLO2
}

FiberEntity* PolicyLoop::Pop(unsigned /*worker*/, bool* /*must_notify*/) {
  if (held_) return nullptr;  // PLO3
  if (own_ == nullptr) {
    if (!HasWork()) return nullptr;
    base::SpinLockGuard guard(lock_);
    own_ = std::exchange(head_, nullptr);  // PLO1
    tail_ = nullptr;
  }
  FiberEntity* fiber = own_;
  if (fiber == nullptr) return nullptr;
  own_ = fiber->next;
  // release: the push that it is one of. Pairs with the acquire in Size().
  popped_.store(popped_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  return fiber;
}

void PolicyLoop::CountStarted() noexcept {
  base::SpinLockGuard guard(lock_);
  started_.store(started_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace weft::scheduling_group
