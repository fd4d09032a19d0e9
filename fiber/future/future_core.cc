// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/future/future_core.h"

#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::fiber::detail {

namespace {

// A fiber or thread that waits: on its stack.
class WaitingCallback final : public FutureCallback {
 public:
  explicit WaitingCallback(FutureCore* core) : core_(core), attached_(core->Attach(this)) {}
  WaitingCallback(const WaitingCallback&) = delete;
  WaitingCallback& operator=(const WaitingCallback&) = delete;
  // Also where an exception ends the wait.
  ~WaitingCallback() { static_cast<void>(Leave()); }

  bool Wait(Deadline deadline) {
    if (attached_ && AwaitEvent(deadline)) attached_ = false;
    return Leave();
  }

  // The waiter may be gone when this returns.
  FutureCallback* Run() noexcept override {
    event_.Set();
    return nullptr;
  }

 private:
  // Without a deadline it promises that it has been set.
  bool AwaitEvent(Deadline deadline) {
    if (!deadline.is_none()) return event_.Wait(deadline);
    event_.Wait();
    return true;
  }
  // True: resolved. False: the callback has been taken back, for the wait has ended for another reason.
  bool Leave() noexcept {
    if (!attached_) return true;
    attached_ = false;
    if (core_->Detach()) return false;
    synchronization::WaitAccess::WaitUncancelled(event_);  // FU2: Run() is about to set it.
    return true;
  }

  FutureCore* const core_;
  FiberEvent event_;  // Before attached_: Run() may come as soon as the callback is attached.
  bool attached_;
};

}  // namespace

bool FutureCore::Wait(Deadline deadline) {
  synchronization::BeginCancellationPoint();
  if (IsResolved()) return true;
  return WaitingCallback(this).Wait(deadline);
}

FutureCase::Entered FutureCase::Enter() noexcept {
  over_.Reset();
  Waiting();  // Before Attach(): Run() may come at once.
  if (core_->Attach(this)) return Entered::kWaits;
  return ClaimSelf() ? Entered::kTaken : Entered::kDecided;
}

void FutureCase::Leave() noexcept {
  if (!core_->Detach()) synchronization::WaitAccess::WaitUncancelled(over_);  // FC1
}

FutureCallback* FutureCase::Run() noexcept {
  if (waiter().Claim(synchronization::WaitResult::kNotified)) {
    waiter().Wake();
  } else {
    over_.Set();
  }
  return nullptr;
}

}  // namespace weft::fiber::detail
