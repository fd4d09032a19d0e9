// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberCancelled: what a cancelled wait throws (cancel_scope.h).
//
// It is not a std::exception, so `catch (const std::exception&)` lets it pass. Code that catches it, by name or by
// `catch (...)`, must throw it on: the scope that was cancelled ends it, and until then each wait throws again.
#ifndef WEFT_SYNC_FIBER_CANCELLED_H_
#define WEFT_SYNC_FIBER_CANCELLED_H_

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/wait/wait_state.h"

namespace weft {

namespace synchronization {
struct CancelNode;
[[noreturn]] void ThrowInterrupted();
}  // namespace synchronization

class FiberCancelled {
 public:
  // Of no scope: ends in the outermost one that is cancelled.
  explicit FiberCancelled(bool by_deadline) noexcept : by_deadline_(by_deadline) {}

  // Whether the deadline of a scope has passed; otherwise somebody has called Cancel().
  bool by_deadline() const noexcept { return by_deadline_; }

 private:
  friend class CancelScope;
  friend void synchronization::ThrowInterrupted();

  bool by_deadline_;
  // The outermost cancelled scope when it was thrown, which ends it. The scope may have gone.
  const synchronization::CancelNode* cause_ = nullptr;
};

namespace synchronization {

// The calling fiber, whose wait has ended with kInterrupted: throws FiberCancelled, or the exception of an Interrupt().
[[noreturn]] void ThrowInterrupted();
// The same; kTimedOut: the stack is being unwound.
WaitResult ThrowInterruptedOrTimeOut();

// The end of a wait that was Interruptible::kYes.
inline WaitResult CheckInterrupted(WaitResult result) {
  if (WEFT_UNLIKELY(result == WaitResult::kInterrupted)) ThrowInterrupted();
  return result;
}
// Interruptible::kResult.
inline WaitResult CheckInterruptedWithResult(WaitResult result) {
  return WEFT_LIKELY(result != WaitResult::kInterrupted) ? result : ThrowInterruptedOrTimeOut();
}

// While one lives the fiber is in a wait of a function that returns nothing, `what`. Debug builds log a line if the
// limit of a scope passes meanwhile, and does not end the wait because the stack is being unwound.
class UnendedWait {
 public:
  explicit UnendedWait([[maybe_unused]] const char* what) noexcept {
#ifndef NDEBUG
    begun_ = Begin(what);
#endif
  }
  ~UnendedWait() {
#ifndef NDEBUG
    if (begun_) End();
#endif
  }
  UnendedWait(const UnendedWait&) = delete;
  UnendedWait& operator=(const UnendedWait&) = delete;

  static void Log(const char* what) noexcept;

 private:
  static bool Begin(const char* what) noexcept;
  static void End() noexcept;

  [[maybe_unused]] bool begun_ = false;
};

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
