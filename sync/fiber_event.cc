// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_event.h"

#include "weft/base/thread/cpu.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::SoleWaiter;
using synchronization::Waiter;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

void FiberEvent::Set() noexcept {
  base::PrefetchForWrite(&word_);
  std::uintptr_t found = word_.load(std::memory_order_relaxed);
  do {
    if ((found & kQueued) != 0) return SetSlow();
    // release: what the caller did before. Pairs with the acquires in IsSet() and Reset().
    // acquire: the waiter. Pairs with the release in SolePlace::Publish().
  } while (!word_.compare_exchange_weak(found, kSet, std::memory_order_acq_rel, std::memory_order_relaxed));  // EV2
  if (found > kSet) reinterpret_cast<SoleWaiter*>(found)->Wake();
}

void FiberEvent::SetSlow() noexcept {
  WaitList claimed;
  queue_.lock();
  // As in Set(). Under the lock: those in the queue are those that have set kQueued (EV1).
  const std::uintptr_t found = word_.exchange(kSet, std::memory_order_acq_rel);
  queue_.ClaimAll(&claimed);
  queue_.unlock();  // EV2
  if ((found & ~(kSet | kQueued)) != 0) reinterpret_cast<SoleWaiter*>(found & ~(kSet | kQueued))->Wake();
  WakeAll(&claimed);
}

// Of a waiter in the word.
struct FiberEvent::SolePlace {
  static bool Publish(SoleWaiter* self, void* event) noexcept {
    base::Atomic<std::uintptr_t>& word = static_cast<FiberEvent*>(event)->word_;
    std::uintptr_t found = word.load(std::memory_order_relaxed);
    do {
      if ((found & ~kQueued) != 0) return false;
      // release: the waiter. Pairs with the acquires in Set(), SetSlow() and Withdraw(). seq_cst: SW1.
    } while (!word.compare_exchange_weak(found, found | reinterpret_cast<std::uintptr_t>(self),
                                         std::memory_order_seq_cst, std::memory_order_relaxed));
    return true;
  }
  static bool Withdraw(SoleWaiter* self, void* event) noexcept {
    base::Atomic<std::uintptr_t>& word = static_cast<FiberEvent*>(event)->word_;
    std::uintptr_t found = word.load(std::memory_order_relaxed);
    do {
      if ((found & ~kQueued) != reinterpret_cast<std::uintptr_t>(self)) return false;
      // acquire: that it has left its stack. EV1: kQueued stays.
    } while (!word.compare_exchange_weak(found, found & kQueued, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
};

// In the word. kNotPublished: it is set, or another waiter is there.
inline SoleWaiter::Result FiberEvent::WaitAsSole(Interruptible interruptible, WaitReason reason) noexcept {
  if ((word_.load(std::memory_order_relaxed) & ~kQueued) != 0) return SoleWaiter::Result::kNotPublished;  // No switch.
  SoleWaiter waiter(this);
  return waiter.Await<SolePlace>(interruptible, reason);
}

WaitResult FiberEvent::WaitUnset(Deadline deadline, Interruptible interruptible, WaitReason reason) noexcept {
  if (deadline.is_none()) {
    switch (WaitAsSole(interruptible, reason)) {
      case SoleWaiter::Result::kNotified:
        return WaitResult::kNotified;
      case SoleWaiter::Result::kInterrupted:
        return WaitResult::kInterrupted;
      case SoleWaiter::Result::kNotPublished:
        break;
    }
  }
  return WaitSlow(deadline, interruptible, reason);
}

// With the queue's lock. False: it is set.
bool FiberEvent::MarkQueued() noexcept {
  // acquire, both: as in IsSet(). relaxed on success: Set() looks into the queue under its lock.
  std::uintptr_t found = word_.load(std::memory_order_acquire);
  do {
    if (found == kSet) return false;
  } while ((found & kQueued) == 0 &&
           !word_.compare_exchange_weak(found, found | kQueued, std::memory_order_relaxed, std::memory_order_acquire));
  return true;
}

WEFT_NOINLINE WaitResult FiberEvent::WaitSlow(Deadline deadline, Interruptible interruptible,
                                              WaitReason reason) noexcept {
  if (!deadline.is_none() && deadline.expired()) return WaitResult::kTimedOut;
  Waiter waiter;
  queue_.lock();
  if (!MarkQueued()) {
    queue_.unlock();
    return WaitResult::kNotified;
  }
  return queue_.Wait(&waiter, deadline, interruptible, reason);
}

bool FiberEvent::EnterShared(Waiter* waiter) noexcept {
  queue_.lock();
  const bool waits = MarkQueued();
  if (waits) queue_.EnqueueShared(waiter);
  queue_.unlock();
  return waits;
}

void FiberEvent::LeaveShared(Waiter* waiter) noexcept {
  queue_.lock();
  queue_.LeaveUnnotified(waiter);
  queue_.unlock();
}

}  // namespace weft
