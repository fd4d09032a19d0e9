// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait_group.h"

#include "weft/base/report/check.h"
#include "weft/base/thread/exit.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

WaitGroup::~WaitGroup() {
  queue_.Drain("WaitGroup");  // One whose cancelled wait was passed over may be there still.
  // exit() destroys what is static under fibers that never run again.
  WEFT_CHECK(count_ == 0 || base::IsInExit(), "WaitGroup::~WaitGroup: ", count_, " Done() are still to come");
}

void WaitGroup::Add(std::ptrdiff_t n) noexcept {
  queue_.lock();
  const std::ptrdiff_t before = count_;
  std::ptrdiff_t sum = 0;
  const bool fits = n >= 0 && !__builtin_add_overflow(before, n, &sum);
  if (fits) count_ = sum;
  queue_.unlock();
  WEFT_CHECK(fits, "WaitGroup::Add: ", n, " to ", before);
}

void WaitGroup::Done() noexcept {
  WaitList claimed;
  queue_.lock();
  const std::ptrdiff_t left = --count_;
  if (left == 0) queue_.ClaimAll(&claimed);  // WG1
  queue_.unlock();                           // WG2
  WEFT_CHECK(left >= 0, "WaitGroup::Done: called more often than Add()");
  WakeAll(&claimed);
}

void WaitGroup::Wait() {
  synchronization::BeginCancellationPoint();
  const synchronization::UnendedWait named("WaitGroup::Wait()");  // It may log: without the lock.
  Waiter waiter;
  queue_.lock();
  if (count_ == 0) return queue_.unlock();
  const WaitReason reason(WaitKind::kWaitGroup, this);
  synchronization::CheckInterrupted(queue_.Wait(&waiter, Deadline::None(), Interruptible::kYes, reason));
}

bool WaitGroup::Wait(Deadline deadline) {
  synchronization::BeginCancellationPoint();
  Waiter waiter;
  queue_.lock();
  if (count_ == 0) {
    queue_.unlock();
    return true;
  }
  const WaitReason reason(WaitKind::kWaitGroup, this);
  const WaitResult result = queue_.Wait(&waiter, deadline, Interruptible::kResult, reason);
  return synchronization::CheckInterruptedWithResult(result) == WaitResult::kNotified;
}

std::ptrdiff_t WaitGroup::Count() const noexcept {
  queue_.lock();
  const std::ptrdiff_t count = count_;
  queue_.unlock();
  return count;
}

}  // namespace weft
