// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_barrier.h"

#include <utility>

#include "weft/base/report/check.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitReason;

FiberBarrier::FiberBarrier(std::ptrdiff_t expected, base::UniqueFunction<void()> completion)
    : completion_(std::move(completion)), expected_(expected), remaining_(expected) {
  WEFT_CHECK(expected > 0, "FiberBarrier: bad number of participants ", expected);
}

void FiberBarrier::ArriveAndWait() {
  scheduling_group::YieldIfSliceIsOver();  // Not a cancellation point: the arrival is yet to be made.
  Waiter waiter;
  const synchronization::UnendedWait named("FiberBarrier::ArriveAndWait()");  // It may log: without the lock.
  queue_.lock();
  WEFT_CHECK(remaining_ > 0, "FiberBarrier: more arrivals than expected");
  if (--remaining_ > 0) {
    const WaitReason reason(WaitKind::kBarrier, this);
    synchronization::CheckInterrupted(queue_.Wait(&waiter, Deadline::None(), Interruptible::kYes, reason));
    return;
  }
  queue_.unlock();
  CompletePhase();
}

void FiberBarrier::ArriveAndDrop() noexcept {
  queue_.lock();
  WEFT_CHECK(remaining_ > 0, "FiberBarrier: more arrivals than expected");
  --expected_;
  const bool last = --remaining_ == 0;
  queue_.unlock();
  if (last) CompletePhase();
}

// The last arrival of the phase: all others wait, and nobody else may arrive.
void FiberBarrier::CompletePhase() noexcept {
  if (completion_) completion_();
  WaitList claimed;
  queue_.lock();
  remaining_ = expected_;
  queue_.ClaimAll(&claimed);
  queue_.unlock();
  WakeAll(&claimed);
}

}  // namespace weft
