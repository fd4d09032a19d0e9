// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberConditionVariable: std::condition_variable for std::unique_lock<FiberMutex>; for fibers and threads.
//
// Who may call: any fiber and any thread. wait*() switches (a thread: blocks), needs the lock and is a cancellation
// point: when it throws, the lock is held again. notify_*() never switch or block, with or without the lock. All that
// wait at one time must use the same mutex.
// Memory ordering: that of the mutex.
// Lifetime: may be destroyed when all waiters have been notified, also before they have returned (as
// std::condition_variable). Spurious returns are possible, as the standard allows: use the forms with a predicate.
//
// How it works. A waiter enters the queue, unlocks the mutex, waits. A notifier that finds the mutex locked does not
// wake a waiter only for it to wait again: it moves it into the mutex's own queue (FiberMutex::Adopt), and the unlock
// wakes it. notify_all() moves all of them: each is woken by its predecessor's unlock, and there is no thundering herd.
//
// Invariants
//   CV1  A waiter is in the queue before it unlocks the mutex: who changes the condition under the mutex afterwards,
//        and notifies then, with or without it, finds it.
//   CV2  notify_*() read one word if nobody waits. The mutex orders that look after the waiters it must see (CV1).
//   CV3  No notification is spent on a waiter that has timed out or was cancelled: it goes to the next one (WS4).
//   CV4  A notifier's last touch of the condition variable is the unlock of its queue; that of the mutex the unlock of
//        the mutex's queue, before any of the waiters that it has moved or wakes can own it.
#ifndef WEFT_SYNC_FIBER_CONDITION_VARIABLE_H_
#define WEFT_SYNC_FIBER_CONDITION_VARIABLE_H_

#include <condition_variable>
#include <mutex>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class FiberConditionVariable {
 public:
  // Nobody waits. Usable before any initialisation of the program has run.
  constexpr FiberConditionVariable() = default;
  FiberConditionVariable(const FiberConditionVariable&) = delete;
  FiberConditionVariable& operator=(const FiberConditionVariable&) = delete;
  // Waits for those that timed out while they were notified and have not left the queue yet: a moment, rarely.
  ~FiberConditionVariable() { queue_.Drain("FiberConditionVariable"); }

  // Wakes one of those that wait; nothing if nobody does. Never switches or blocks.
  void notify_one() noexcept {
    if (!queue_.empty_hint()) NotifyOneSlow();  // CV2
  }
  // Wakes all that wait. Never switches or blocks.
  void notify_all() noexcept {
    if (!queue_.empty_hint()) NotifyAllSlow();  // CV2
  }

  // Unlocks, waits to be notified, and locks again; also locked again when it throws. May return without a
  // notification.
  void wait(std::unique_lock<FiberMutex>& lock) {
    const synchronization::UnendedWait named("FiberConditionVariable::wait()");
    synchronization::CheckInterrupted(WaitOnce(lock, {}, synchronization::Interruptible::kYes));
  }

  // The same. std::cv_status::timeout: the deadline has passed.
  std::cv_status wait(std::unique_lock<FiberMutex>& lock, Deadline deadline) {
    using synchronization::Interruptible;
    return synchronization::CheckInterruptedWithResult(WaitOnce(lock, deadline, Interruptible::kResult)) ==
                   synchronization::WaitResult::kTimedOut
               ? std::cv_status::timeout
               : std::cv_status::no_timeout;
  }

  // Waits until stop_waiting() is true. It is called with the lock, first before the wait.
  template <class Predicate, class = std::enable_if_t<!std::is_convertible_v<Predicate, Deadline>>>
  void wait(std::unique_lock<FiberMutex>& lock, Predicate stop_waiting) {
    while (!stop_waiting()) wait(lock);
  }

  // What the predicate says in the end.
  template <class Predicate>
  bool wait(std::unique_lock<FiberMutex>& lock, Predicate stop_waiting, Deadline deadline) {
    while (!stop_waiting()) {
      if (wait(lock, deadline) == std::cv_status::timeout) return stop_waiting();
    }
    return true;
  }

  // The same with the standard's names and order.
  template <class Rep, class Period>
  std::cv_status wait_for(std::unique_lock<FiberMutex>& lock, const std::chrono::duration<Rep, Period>& timeout) {
    return wait(lock, Deadline(timeout));
  }
  template <class Rep, class Period, class Predicate>
  bool wait_for(std::unique_lock<FiberMutex>& lock, const std::chrono::duration<Rep, Period>& timeout,
                Predicate stop_waiting) {
    return wait(lock, std::move(stop_waiting), timeout);
  }
  std::cv_status wait_until(std::unique_lock<FiberMutex>& lock, Deadline deadline) { return wait(lock, deadline); }
  template <class Predicate>
  bool wait_until(std::unique_lock<FiberMutex>& lock, Deadline deadline, Predicate stop_waiting) {
    return wait(lock, std::move(stop_waiting), deadline);
  }

 private:
  synchronization::WaitResult WaitOnce(std::unique_lock<FiberMutex>& lock, Deadline deadline,
                                       synchronization::Interruptible interruptible) noexcept;
  void NotifyOneSlow() noexcept;
  void NotifyAllSlow() noexcept;

  synchronization::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_CONDITION_VARIABLE_H_
