// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ScopeTimer: cancels a scope at its deadline.
//
// It fires on the timer thread, under a shard's lock; the cancellation comes when the lock has been dropped, for all
// scopes of a batch with at most one HeavyFence (cancel_node.h).
//
// The thread may be late: the fiber in the scope looks at the clock, too, when the timer is armed and at each
// cancellation point (wait_queue.h). A scope that is cancelled, which it is for good, needs no timer.
//
// Invariants
//   CE1  Disarm() returns when the timer neither cancels nor will cancel: either it was armed still, or it has fired
//        and `over_` is set, RunAll()'s last touch of it. That happens once: a timer that has fired has cancelled the
//        scope, and is never armed again.
#ifndef WEFT_SYNC_CANCEL_SCOPE_TIMER_H_
#define WEFT_SYNC_CANCEL_SCOPE_TIMER_H_

#include <cstddef>

#include "weft/base/deadline.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_event.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::synchronization {

class ScopeTimer : private timer::WaitTimer, private timer::DeferredTimer {
 public:
  // Both outlive it.
  explicit ScopeTimer(CancelNode* node) noexcept;
  ScopeTimer(const ScopeTimer&) = delete;
  ScopeTimer& operator=(const ScopeTimer&) = delete;

  // The fiber in the scope; all three. No deadline, or cancelled: it is not armed.
  void Arm(FiberEntity* self, Deadline deadline) noexcept;
  // May wait for the timer thread, which is not a cancellation point.
  void Disarm() noexcept;
  // Sets the scope's deadline. One that has passed cancels it at once.
  void Rearm(FiberEntity* self, Deadline deadline) noexcept;

 private:
  static void RunAll(timer::DeferredTimer* const* due, std::size_t count);

  CancelNode* const node_;
  bool armed_ = false;
  FiberEvent over_;
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_SCOPE_TIMER_H_
