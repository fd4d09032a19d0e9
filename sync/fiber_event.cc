// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_event.h"

namespace weft {

using sync::Interruptible;
using sync::Waiter;
using sync::WaitList;
using sync::WaitResult;

void FiberEvent::Set() noexcept {
  WaitList claimed;
  queue_.lock();
  // release: what the caller did before. Pairs with the acquire in IsSet().
  set_.store(true, std::memory_order_release);
  queue_.ClaimAll(&claimed);
  queue_.unlock();  // EV2
  WakeAll(&claimed);
}

WaitResult FiberEvent::WaitSlow(base::Deadline deadline, Interruptible interruptible) noexcept {
  Waiter waiter;
  queue_.lock();
  // relaxed: the lock orders it behind the Set() that set it.
  if (set_.load(std::memory_order_relaxed)) {
    queue_.unlock();
    return WaitResult::kNotified;
  }
  return queue_.Wait(&waiter, deadline, interruptible);
}

}  // namespace weft
