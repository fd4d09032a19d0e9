// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberEvent: something that happens; fibers and threads wait until it has. Set() lets all through that wait and that
// come later, until Reset().
//
// Who may call: any fiber and any thread. Wait*() may switch (a thread: block). Set() never switches or blocks, and
// fails never: it may be called where nothing else can (from a timer's callback, when a fiber ends). Reset() and
// IsSet() read or write one word.
// Memory ordering: what X did before the Set() that set the event is visible to Y after its Wait() has returned, or
// after IsSet() has said true; what X did before a Set() that Reset() undoes is visible after that Reset().
// Lifetime: may be destroyed as soon as all waits have returned (and IsSet() has said true), even if Set() has not
// returned.
//
// Invariants
//   EV1  set_ becomes true under the queue's lock, and all that are in the queue then are let through by that Set(),
//        whatever Reset() does meanwhile.
//   EV2  The unlock of the queue is the last touch by Set(). Who sees the event set returns only when that is over
//        (WaitQueue::AwaitQuiet).
//   EV3  Set() always writes set_, and Reset() reads what it overwrites: "Wait(); Reset(); take the work" loses no work
//        that was put down before a Set().
// Rejected: one word with the waiters' list in it, without a lock (one read-modify-write less per wait, but a waiter
// that times out cannot leave such a list without one).
#ifndef WEFT_SYNC_FIBER_EVENT_H_
#define WEFT_SYNC_FIBER_EVENT_H_

#include <chrono>
#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/clock.h"
#include "weft/base/cpu.h"
#include "weft/sync/wait_queue.h"

namespace weft {

class FiberEvent {
 public:
  constexpr FiberEvent() = default;
  FiberEvent(const FiberEvent&) = delete;
  FiberEvent& operator=(const FiberEvent&) = delete;

  // True: it has been set, and not reset since.
  [[nodiscard]] bool IsSet() const noexcept {
    // acquire: what was done before Set(). Pairs with the release there.
    if (!set_.load(std::memory_order_acquire)) return false;
    queue_.AwaitQuiet();  // EV2
    return true;
  }

  void Wait() noexcept {
    if (!IsSet()) static_cast<void>(WaitSlow(base::Deadline::Infinite(), sync::Interruptible::kNo));
  }

  // False: not set within the time.
  template <class Rep, class Period>
  [[nodiscard]] bool WaitFor(const std::chrono::duration<Rep, Period>& timeout) noexcept {
    return IsSet() || WaitSlow(base::Deadline::After(timeout), sync::Interruptible::kNo) == sync::WaitResult::kNotified;
  }

  // The same; any clock.
  template <class Clock, class Duration>
  [[nodiscard]] bool WaitUntil(const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
    return IsSet() || WaitSlow(base::Deadline::At(deadline), sync::Interruptible::kNo) == sync::WaitResult::kNotified;
  }

  // For the layers above: a wait that sync::InterruptWait() can end.
  [[nodiscard]] sync::WaitResult WaitInterruptibly(base::Deadline deadline = base::Deadline::Infinite()) noexcept {
    return IsSet() ? sync::WaitResult::kNotified : WaitSlow(deadline, sync::Interruptible::kYes);
  }

  void Set() noexcept;

  // The next waits wait again. Whoever waits already, or is being let through, is not held back.
  void Reset() noexcept {
    // An exchange, not a store; acquire: EV3. Pairs with the release in Set().
    set_.exchange(false, std::memory_order_acquire);
  }

 private:
  sync::WaitResult WaitSlow(base::Deadline deadline, sync::Interruptible interruptible) noexcept;

  base::Atomic<bool> set_{false};
  mutable sync::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_EVENT_H_
