// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberCancelled: what a cancelled wait throws (cancel_scope.h).
//
// It is not a std::exception, so `catch (const std::exception&)` lets it pass. Code that catches it, by name or by
// `catch (...)`, must throw it on: the scope that was cancelled ends it, and until then each wait throws again.
#ifndef WEFT_SYNC_FIBER_CANCELLED_H_
#define WEFT_SYNC_FIBER_CANCELLED_H_

#include "weft/base/cpu.h"
#include "weft/scheduling_group/time_slice.h"
#include "weft/sync/wait_state.h"

namespace weft {

class FiberCancelled {
 public:
  explicit FiberCancelled(bool by_deadline) noexcept : by_deadline_(by_deadline) {}

  // Whether the deadline of a scope has passed; otherwise somebody has called Cancel().
  bool by_deadline() const noexcept { return by_deadline_; }

 private:
  bool by_deadline_;
};

namespace synchronization {

// The calling fiber, whose wait has ended with kInterrupted: throws FiberCancelled, or the exception of an Interrupt().
[[noreturn]] void ThrowInterrupted();

// A wait's result, for waits that throw.
inline WaitResult CheckInterrupted(WaitResult result) {
  if (WEFT_UNLIKELY(result == WaitResult::kInterrupted)) ThrowInterrupted();
  return result;
}

// The calling fiber or thread, where it might have waited: throws if it is cancelled.
void TestCancelled();
// The same after a wait for a scope's children: what ended them may not have set the caller's kPending yet (CN2).
void TestCancelledByChain();

void YieldAndTestCancelled();

// Begins a cancellation point: a cancelled fiber that never has to wait throws here, when its time slice is over.
WEFT_ALWAYS_INLINE void BeginCancellationPoint() {
  if (WEFT_UNLIKELY(scheduling_group::TimeSliceIsOver())) YieldAndTestCancelled();
}

}  // namespace synchronization
}  // namespace weft

#endif  // WEFT_SYNC_FIBER_CANCELLED_H_
