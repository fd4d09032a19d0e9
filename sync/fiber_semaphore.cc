// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_semaphore.h"

namespace weft {

using sync::Interruptible;
using sync::Waiter;
using sync::WaitList;
using sync::WaitResult;

WEFT_NOINLINE WaitResult FiberSemaphore::AcquireSlow(base::Deadline deadline, Interruptible interruptible) noexcept {
  Waiter waiter;
  queue_.lock();
  std::uint64_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  while ((word & kWaiters) == 0) {
    // relaxed on the way to the bit: who sees it takes the lock. acquire with a unit: as in try_acquire().
    const std::uint64_t next = word >= kOneUnit ? word - kOneUnit : kWaiters;
    if (!word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed)) continue;
    if (next == kWaiters) break;
    queue_.unlock();
    return WaitResult::kNotified;
  }
  const WaitResult result = queue_.Wait(&waiter, deadline, interruptible);
  if (result != WaitResult::kNotified) {
    queue_.lock();
    if (queue_.empty() && word_.load(std::memory_order_relaxed) == kWaiters) {
      word_.store(0, std::memory_order_relaxed);  // SE1, SE2: only we write it; it carries nothing.
    }
    queue_.unlock();
  }
  return result;
}

WEFT_NOINLINE void FiberSemaphore::ReleaseSlow(std::ptrdiff_t units) noexcept {
  WaitList claimed;
  queue_.lock();
  while (units > 0) {
    Waiter* waiter = queue_.ClaimFirst();
    if (waiter == nullptr) break;
    claimed.PushBack(waiter);
    --units;
  }
  if (queue_.empty()) {
    // The waiters may have gone since release() looked, and others come and gone.
    const std::uint64_t plus = static_cast<std::uint64_t>(units) << kUnitShift;
    const std::uint64_t word =
        word_.load(std::memory_order_relaxed);  // Whether the bit is set changes under the lock only.
    // release: as in release(). A plain store with the bit: SE1.
    if ((word & kWaiters) != 0) {
      word_.store(plus, std::memory_order_release);
    } else {
      word_.fetch_add(plus, std::memory_order_release);
    }
  }
  queue_.unlock();  // SE3
  WakeAll(&claimed);
}

}  // namespace weft
