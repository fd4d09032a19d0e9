// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OvertakenCall: a call that another thread makes at most once, at any time, and that its owner may overtake: after
// Close() it is over, or does nothing. COS1 in cancel_on_stop.h.
#ifndef WEFT_SYNC_WAIT_OVERTAKEN_CALL_H_
#define WEFT_SYNC_WAIT_OVERTAKEN_CALL_H_

#include "weft/base/thread/atomic.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_access.h"

namespace weft::synchronization {

class OvertakenCall {
 public:
  // The other thread, or the owner before Close(). Calls f(), unless Close() was first.
  template <class F>
  void Run(F f) noexcept {
    if (!Begin()) return;
    f();
    over_.Set();
  }

  // The owner, once. May switch (a thread: block); not a cancellation point.
  void Close() noexcept {
    if (!Begin()) WaitAccess::WaitUncancelled(over_);
  }

 private:
  // True: the caller is first. relaxed: over_ carries what f() did; the hand-over of the call, what came before it.
  bool Begin() noexcept { return !begun_.exchange(true, std::memory_order_relaxed); }

  base::Atomic<bool> begun_{false};
  FiberEvent over_;
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_OVERTAKEN_CALL_H_
