// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// GrpcCompletion: a fiber or thread waits for one operation of gRPC after the other; gRPC carries them out in its own
// threads.  The adapter's reactors are made of it (grpc_server.h, grpc_client.h).
//
//     Begin()   the waiter, before it asks gRPC for the operation
//     End(ok)   gRPC's callback
//     Await()   the waiter: parks until End(), returns its `ok`
//     AwaitOr(cancel)   the same; if the fiber is cancelled it calls cancel(), which hastens the end, and waits on
//
// Invariants
//   GC1  Begin, End, Await follow each other in this order; the next Begin comes after Await has returned.
//   GC2  End() is the callback's last touch of what the waiter owns: the completion, and the stack that it may lie on,
//        may be gone as soon as Await() has returned (FiberEvent's rule on its lifetime).
//
// Memory ordering: the thread that calls End() sees all that came before Begin(); the waiter sees after Await() all
// that came before End(). gRPC orders the first pair, too. It is ordered here once more so that ThreadSanitizer can
// check the adapter: gRPC's libraries are not instrumented.

#ifndef WEFT_INTEROP_GRPC_COMPLETION_H_
#define WEFT_INTEROP_GRPC_COMPLETION_H_

#include <atomic>

#include "weft/base/atomic.h"
#include "weft/base/check.h"
#include "weft/base/deadline.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait_access.h"

namespace weft::interop::detail {

class GrpcCompletion {
 public:
  GrpcCompletion() = default;
  GrpcCompletion(const GrpcCompletion&) = delete;
  GrpcCompletion& operator=(const GrpcCompletion&) = delete;

  // `caller` names itself in the message if two fibers use one call at a time.
  void Begin(const char* caller) {
    // acq_rel: release hands what the waiter did to End(); acquire pairs with the Await() of another fiber that used
    // the call before.
    const bool was_under_way = under_way_.exchange(true, std::memory_order_acq_rel);
    WEFT_CHECK(!was_under_way, caller, ": another fiber is in it already; a call is used by one fiber at a time");
    ended_.Reset();
  }

  void End(bool ok) noexcept {
    static_cast<void>(under_way_.load(std::memory_order_acquire));  // Pairs with Begin().
    ok_ = ok;
    ended_.Set();
  }

  bool Await() noexcept {
    synchronization::WaitAccess::WaitUncancelled(ended_);
    return TakeResult();
  }

  template <class Cancel>
  bool AwaitOr(Cancel&& cancel) noexcept {
    using synchronization::Interruptible;
    using synchronization::WaitResult;
    if (synchronization::WaitAccess::Wait(ended_, Deadline::None(), Interruptible::kYes) == WaitResult::kInterrupted) {
      cancel();
      synchronization::WaitAccess::WaitUncancelled(ended_);  // GC2: it refers to what the caller owns.
    }
    return TakeResult();
  }

 private:
  bool TakeResult() noexcept {
    const bool ok = ok_;
    under_way_.store(false, std::memory_order_release);  // Pairs with the next Begin().
    return ok;
  }

  base::Atomic<bool> under_way_{false};
  bool ok_ = false;
  FiberEvent ended_;
};

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_GRPC_COMPLETION_H_
