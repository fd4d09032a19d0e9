// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_latch.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

WEFT_COLD void FiberLatch::FailBelowZero(std::ptrdiff_t n, std::uint64_t word) noexcept {
  WEFT_CHECK(false, "FiberLatch::CountDown: ", n, " from ", word >> kCountShift, " would be below zero");
}

// The last CountDown(): the word is {0, waiters}.
WEFT_NOINLINE void FiberLatch::OpenSlow() noexcept {
  WaitList claimed;
  queue_.lock();
  queue_.ClaimAll(&claimed);
  // release: hands on to later TryWait() what the counters did (CountDown() has acquired it).
  word_.store(0, std::memory_order_release);
  queue_.unlock();  // LA2
  WakeAll(&claimed);
}

// With the queue's lock. False: it is open.
bool FiberLatch::MarkWaiters() const noexcept {
  std::uint64_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  for (;;) {
    if (word == 0) return false;
    if ((word & kWaiters) != 0) return true;
    // relaxed: the last CountDown() takes the lock before it looks into the queue (LA3).
    if (word_.compare_exchange_weak(word, word | kWaiters, std::memory_order_relaxed, std::memory_order_relaxed)) {
      return true;
    }
  }
}

WEFT_NOINLINE WaitResult FiberLatch::WaitSlow(Deadline deadline, Interruptible interruptible) const noexcept {
  Waiter waiter;
  queue_.lock();
  if (MarkWaiters()) {
    return queue_.Wait(&waiter, deadline, interruptible, WaitReason(WaitKind::kLatch, this));
  }
  queue_.unlock();
  // acquire: as in TryWait(); the count may have come to zero without the lock.
  static_cast<void>(word_.load(std::memory_order_acquire));
  return WaitResult::kNotified;
}

bool FiberLatch::EnterShared(Waiter* waiter) const noexcept {
  queue_.lock();
  const bool waits = MarkWaiters();
  if (waits) queue_.EnqueueShared(waiter);
  queue_.unlock();
  if (!waits) static_cast<void>(word_.load(std::memory_order_acquire));  // As above.
  return waits;
}

void FiberLatch::LeaveShared(Waiter* waiter) const noexcept {
  queue_.lock();
  queue_.LeaveUnnotified(waiter);
  queue_.unlock();
}

}  // namespace weft
