// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FutureCase: a Future as a case of a Select() (sync/select.h).
//
// Its callback (future_core.h) is the notifier. It claims the selection as others do, but there is no list and no lock:
//
//   selection                                  resolver
//   ---------                                  --------
//   Attach(this)                               Publish() takes the callback
//   ... decides, for whatever case             Run(): claims the selection.  Won:  wakes it
//   not notified: Leave(): Detach()                                          Lost: sets over_
//                 too late: waits for over_
//
// Invariants
//   FC1  Run() is over, or never comes, before the selection returns: it has won, and the selection waits for its wake
//        (SL5); or Detach() has taken the callback back; or Leave() has seen over_, Run()'s last touch.
//
// The future is named by one case at a time, and has no continuation.
// Checked in tests/model/future_model.cc.
#ifndef WEFT_FIBER_FUTURE_FUTURE_CASE_H_
#define WEFT_FIBER_FUTURE_FUTURE_CASE_H_

#include "weft/fiber/future/future_core.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"

namespace weft::fiber::detail {

class FutureCase final : public synchronization::SelectCase, private FutureCallback {
 public:
  FutureCase(synchronization::Selection* selection, FutureCore* core) noexcept : SelectCase(selection), core_(core) {}

  bool TryTake() noexcept override { return core_->IsResolved(); }
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override { return true; }

 private:
  FutureCallback* Run() noexcept override;

  FutureCore* const core_;
  FiberEvent over_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_FUTURE_FUTURE_CASE_H_
