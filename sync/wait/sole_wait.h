// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SoleWaiter::Await() (wait_queue.h), for the sources of the primitives: a wait in a place of theirs. A template, so
// that the worker makes a waiter known in one call.
#ifndef WEFT_SYNC_WAIT_SOLE_WAIT_H_
#define WEFT_SYNC_WAIT_SOLE_WAIT_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/cancel_fence.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

template <class Place>
WEFT_ALWAYS_INLINE SoleWaiter::Result SoleWaiter::Await(Interruptible interruptible) noexcept {
  FiberEntity* const fiber = scheduling_group::CurrentFiber();
  fiber_ = fiber;
  if (fiber == nullptr) {
    parker_.Prepare();
    if (!Place::Publish(this, argument_)) return Result::kNotPublished;
    AwaitAsThread();
    return Result::kNotified;
  }
  result_ = Result::kNotified;
  if (MayBeCancelled(fiber, interruptible)) {
    AwaitCancellably<Place>(fiber);
  } else {
    scheduling_group::ParkAndPublish(fiber, &Publish<Place>, this);
  }
  return result_;
}

template <class Place>
bool SoleWaiter::Publish(void* self) noexcept {
  auto* const waiter = static_cast<SoleWaiter*>(self);
  if (Place::Publish(waiter, waiter->argument_)) return true;
  waiter->result_ = Result::kNotPublished;  // The owner still has it alone.
  return false;
}

template <class Place>
WEFT_ALWAYS_INLINE void SoleWaiter::AwaitCancellably(FiberEntity* fiber) noexcept {
  if (IsToEnd(fiber)) {
    YieldIfUnwinding();
    result_ = Result::kInterrupted;
    return;
  }
  withdraw_ = &Place::Withdraw;
  // release: a canceller finds the waiter complete. Pairs with the acquire in TakenWait::Of().
  fiber->current_wait.store(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(this) | kTag),
                            std::memory_order_release);
  scheduling_group::ParkAndPublish(fiber, &PublishCancellably<Place>, this);
  fiber->current_wait.store(nullptr, std::memory_order_relaxed);  // The lock below orders it, if anything must.
  scheduling_group::LightCancelFence();                           // SW2. Pairs with HeavyCancelFence() in Deliver().
  if (WEFT_UNLIKELY(fiber->cancel_word.pending())) AwaitCanceller(fiber);
}

template <class Place>
bool SoleWaiter::PublishCancellably(void* self) noexcept {
  FiberEntity* const fiber = static_cast<SoleWaiter*>(self)->fiber_;
  if (!Publish<Place>(self)) return false;
  // From here on *self may be gone, and the fiber another one.
  scheduling_group::LightCancelFence();  // SW1. Pairs with HeavyCancelFence() in Deliver().
  if (WEFT_UNLIKELY(fiber->cancel_word.pending())) EndPendingWait(fiber);
  return true;
}

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_SOLE_WAIT_H_
