// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelOnStop: cancels a scope, a task or a fiber when a std::stop_token says so. The other way round there is
// StopOnCancel (fiber/stop_on_cancel.h).
// Sample:
//   if (!RunUntilStopped(token, [&] { Serve(); })) return;     // stopped
//   CancelScope scope(2s);
//   const CancelOnStop link(scope, token);                     // the same by hand, for anything that can be cancelled
//   const bool done = scope.Run([&] { Serve(); });
//
// How it works: a std::stop_callback calls Cancel() of the target, in the thread that calls request_stop(), or in the
// constructor if stop has been requested before. ~stop_callback would block a worker while the callback runs in another
// thread (20 ms for 100,000 fibers). So the destructor first waits as a fiber does, for an event of the callback.
//
//   request_stop()                          ~CancelOnStop
//   --------------                          -------------
//   begun_: was it set? then return         begun_: was it set? then wait for over_
//   target->Cancel()                        ~stop_callback: from here on nobody calls
//   over_.Set()
//
// Invariants
//   COS1  The target is not touched after the destructor: it has set begun_ first, and a late callback returns; or the
//        callback has, and the destructor waits for over_. The callback's last touch is over_, or begun_ if it is late;
//        ~stop_callback waits until it has returned.
//
// Who may call: any fiber and any thread. The caller of request_stop() holds no lock of Weft's own, since that calls
// Cancel(). Only the destructor may switch (a thread: block), while the Cancel() runs; it is no cancellation point.
// Memory ordering: what X did before request_stop() is visible to Y when its wait has thrown.
// Lifetime: the target outlives it. A Fiber's Join() or a FiberTask's Get(), which ends the handle, comes after its
// destruction. To cancel a scope that has been left does nothing to anybody.
// Checked in tests/model/cancel_model.cc.
#ifndef WEFT_SYNC_CANCEL_ON_STOP_H_
#define WEFT_SYNC_CANCEL_ON_STOP_H_

#include <stop_token>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace synchronization {

// A call that another thread makes at most once, at any time, and that its owner may overtake: after Close() it is
// over, or does nothing (COS1).
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

}  // namespace synchronization

class CancelOnStop {
 public:
  // A CancelScope, CancelHandle, FiberScope, FiberTask or Fiber: what has a Cancel() that does not switch.
  template <class Target>
  requires requires(Target& target) {
    { target.Cancel() }
    noexcept;
  }
  CancelOnStop(Target& target, std::stop_token token)
      : target_(&target),
        cancel_([](void* scope) noexcept { static_cast<void>(static_cast<Target*>(scope)->Cancel()); }),
        callback_(std::move(token), Callback{this}) {}
  ~CancelOnStop() { call_.Close(); }
  CancelOnStop(const CancelOnStop&) = delete;
  CancelOnStop& operator=(const CancelOnStop&) = delete;

 private:
  struct Callback {
    void operator()() const noexcept {
      link->call_.Run([this] { link->cancel_(link->target_); });
    }
    CancelOnStop* link;
  };

  void* const target_;
  void (*const cancel_)(void*) noexcept;
  synchronization::OvertakenCall call_;
  std::stop_callback<Callback> callback_;  // Last: it may be called in its constructor.
};

// Calls f() in a CancelScope. False: f was given up, at a request to stop or at the deadline. A thread just calls f.
template <class F>
bool RunUntilStopped(std::stop_token token, F&& f, Deadline deadline = {}) {
  CancelScope scope(deadline);
  const CancelOnStop link(scope, std::move(token));
  return scope.Run(std::forward<F>(f));
}

}  // namespace weft

#endif  // WEFT_SYNC_CANCEL_ON_STOP_H_
