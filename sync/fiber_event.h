// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberEvent: fibers and threads wait until it is set. Set() releases all present and later waiters, until Reset().
//
// Who may call: any fiber and any thread. Wait() may switch (a thread: block) and is a cancellation point. Set() never
// blocks, switches or fails, so it may be called anywhere, even from a timer callback or while a fiber ends. Reset()
// and IsSet() read or write one word.
// Memory ordering: what X did before the Set() that set the event is visible to Y after its Wait() has returned, or
// after IsSet() has said true; what X did before a Set() that Reset() undoes is visible after that Reset().
// Lifetime: may be destroyed once all waits have returned (and IsSet() has said true), even if Set() has not returned.
//
// One word says whether it is set, and holds one waiter without a deadline, the common case. All others are queued:
//
//   kSet                 set
//   0                    not set, nobody waits
//   waiter | kQueued?    not set; `waiter` may be null; kQueued: there are, or were, waiters in the queue
//
//   Wait: 0 -> waiter by compare-exchange; whoever finds another waiter, or has a deadline, sets kQueued and enters the
//   queue, both under its lock.    Set: any -> kSet by compare-exchange, or, if it sees kQueued, under the lock.
//   A cancelled waiter is taken out of the word by compare-exchange.
//
// Invariants
//   EV1  kQueued is changed under the queue's lock only. All that are in the word or in the queue when Set() sets the
//        event are let through by that Set(), whatever Reset() does meanwhile, and nobody else.
//   EV2  The last touch by Set() is the compare-exchange, or the unlock of the queue. Wait() and IsSet() return only
//        after it (WaitQueue::AwaitQuiet).
//   EV3  Set() always writes the word, and Reset() reads what it overwrites: "Wait(); Reset(); take the work" loses no
//        work that was put down before a Set().
// A waiter with a deadline may be let through after a later one without.
// Rejected: all waiters in the word's list, without a lock (a waiter that times out cannot leave such a list without
// one); all in the queue (a hundred instructions more for each wait).
#ifndef WEFT_SYNC_FIBER_EVENT_H_
#define WEFT_SYNC_FIBER_EVENT_H_

#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class FiberEvent {
 public:
  // Not set.
  constexpr FiberEvent() = default;
  FiberEvent(const FiberEvent&) = delete;
  FiberEvent& operator=(const FiberEvent&) = delete;
  ~FiberEvent() {
    // acquire: the waiter, to be named. Pairs with the release in SolePlace::Publish().
    const std::uintptr_t sole = word_.load(std::memory_order_acquire) & ~(kSet | kQueued);
    if (WEFT_UNLIKELY(sole != 0))
      synchronization::FailWaitedFor("FiberEvent", reinterpret_cast<synchronization::SoleWaiter*>(sole)->fiber());
    queue_.CheckNobodyWaits("FiberEvent");
  }

  // True: it has been set, and not reset since.
  [[nodiscard]] bool IsSet() const noexcept {
    // acquire: what was done before Set(). Pairs with the release there.
    if (word_.load(std::memory_order_acquire) != kSet) return false;
    queue_.AwaitQuiet();  // EV2
    return true;
  }

  // Waits until it is set; returns at once if it is.
  void Wait() {
    synchronization::BeginCancellationPoint();
    if (IsSet()) return;
    const synchronization::UnendedWait named("FiberEvent::Wait()");
    synchronization::CheckInterrupted(WaitUnset(Deadline::None(), synchronization::Interruptible::kYes, Reason()));
  }

  // False: not set in time.
  [[nodiscard]] bool Wait(Deadline deadline) {
    synchronization::BeginCancellationPoint();
    using synchronization::Interruptible;
    return IsSet() || synchronization::CheckInterruptedWithResult(WaitUnset(
                          deadline, Interruptible::kResult, Reason())) == synchronization::WaitResult::kNotified;
  }

  // Sets it, and lets all that wait through. Never switches, blocks or fails.
  void Set() noexcept;

  // The next waits wait again. Whoever waits already, or is being let through, is not held back.
  void Reset() noexcept {
    // Not a store; acquire, also if another Reset() was first: EV3. Pairs with the release in Set().
    std::uintptr_t set = kSet;
    word_.compare_exchange_strong(set, 0, std::memory_order_acquire, std::memory_order_acquire);
  }

 private:
  static constexpr std::uintptr_t kSet = 1;
  static constexpr std::uintptr_t kQueued = 2;
  static_assert(alignof(synchronization::SoleWaiter) > (kSet | kQueued));

  friend struct synchronization::WaitAccess;
  template <class Primitive>
  friend class synchronization::QueueCase;

  // For a selection, all three; EnterShared(): false: it need not wait.
  bool TryShared() noexcept { return IsSet(); }
  bool EnterShared(synchronization::Waiter* waiter) noexcept;
  void LeaveShared(synchronization::Waiter* waiter) noexcept;
  synchronization::WaitResult WaitHow(Deadline deadline, synchronization::Interruptible interruptible) noexcept {
    return WaitHow(deadline, interruptible, Reason());
  }
  synchronization::WaitResult WaitHow(Deadline deadline, synchronization::Interruptible interruptible,
                                      synchronization::WaitReason reason) noexcept {
    scheduling_group::YieldIfSliceIsOver();
    return IsSet() ? synchronization::WaitResult::kNotified : WaitUnset(deadline, interruptible, reason);
  }
  synchronization::WaitReason Reason() const noexcept { return {synchronization::WaitKind::kEvent, this}; }
  synchronization::WaitResult WaitUnset(Deadline deadline, synchronization::Interruptible interruptible,
                                        synchronization::WaitReason reason) noexcept;
  struct SolePlace;
  synchronization::SoleWaiter::Result WaitAsSole(synchronization::Interruptible interruptible,
                                                 synchronization::WaitReason reason) noexcept;
  synchronization::WaitResult WaitSlow(Deadline deadline, synchronization::Interruptible interruptible,
                                       synchronization::WaitReason reason) noexcept;
  bool MarkQueued() noexcept WEFT_REQUIRES(queue_);
  void SetSlow() noexcept;

  base::Atomic<std::uintptr_t> word_{0};
  mutable synchronization::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_EVENT_H_
