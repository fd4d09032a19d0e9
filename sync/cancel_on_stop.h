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
// How it works: a std::stop_callback calls Cancel() of the target, in the thread that calls request_stop(). If stop has
// been requested before, that is the constructor. ~stop_callback blocks its thread while the callback runs in another
// one, and a Cancel() of many fibers takes long enough (20 ms for 100,000) to hold up the other fibers of a worker: so
// the destructor of CancelOnStop first waits as a fiber does, for an event that the callback sets.
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
// Who may call: any fiber and any thread. The constructor does not switch. The destructor may switch (a thread: block)
// for as long as the Cancel() takes, and is no cancellation point. request_stop(): any fiber and any thread that holds
// no lock of Weft's own; it does what the target's Cancel() does.
// Memory ordering: as that of the target's Cancel(): what X did before request_stop() is visible to Y when its wait has
// thrown.
// Lifetime: the target outlives it (a Fiber or a FiberTask: also its Join() or Get(), which ends the handle, comes
// after it). A scope that has been left may be cancelled, which does nothing to anybody.
// Checked in tests/model/cancel_model.cc.
#ifndef WEFT_SYNC_CANCEL_ON_STOP_H_
#define WEFT_SYNC_CANCEL_ON_STOP_H_

#include <stop_token>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/overtaken_call.h"

namespace weft {

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

// Calls f(), and gives it up when stop is requested, or at the deadline. False: it was (CancelScope::Run()). In a plain
// thread it just calls f, which nothing ends.
template <class F>
bool RunUntilStopped(std::stop_token token, F&& f, Deadline deadline = {}) {
  CancelScope scope(deadline);
  const CancelOnStop link(scope, std::move(token));
  return scope.Run(std::forward<F>(f));
}

}  // namespace weft

#endif  // WEFT_SYNC_CANCEL_ON_STOP_H_
