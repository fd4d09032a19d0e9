// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_cancelled.h"

#include <exception>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

WEFT_COLD void ThrowInterrupted() {
  FiberEntity* const self = scheduling_group::CurrentFiber();
  if (std::exception_ptr injected = TakeInjected(self)) std::rethrow_exception(std::move(injected));
  const CancelNode* const cause = FindCause(self);  // It has acquired `cancelled`, so that relaxed is enough below.
  FiberCancelled cancelled(cause != nullptr &&
                           cause->cancelled.load(std::memory_order_relaxed) == CancelReason::kDeadline);
  cancelled.cause_ = cause;
  throw cancelled;
}

WEFT_COLD WaitResult ThrowInterruptedOrTimeOut() {
  if (scheduling_group::IsUnwinding()) return WaitResult::kTimedOut;
  ThrowInterrupted();
}

void TestCancelled() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || !self->cancel_word.pending_or_timed()) return;
  if (MayBeCancelled(self, Interruptible::kYes) && IsToEnd(self)) ThrowInterrupted();
}

void TestCancelledByChain() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (MayBeCancelled(self, Interruptible::kYes) && (IsToEnd(self) || FindCause(self) != nullptr)) ThrowInterrupted();
}

namespace {

// Calls visit(node) for the scopes that the fiber has entered since the unwinding of its stack began.
template <class Visit>
void VisitScopesOfUnwinding(const FiberEntity* self, Visit visit) noexcept {
  CancelNode* node = self->innermost_scope();
  for (; !node->entered_by_unwinding; node = node->parent) visit(node);
  visit(node);
}

}  // namespace

bool UnendedWait::Begin(const char* what) noexcept {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || !scheduling_group::IsUnwinding() || !MayBeCancelled(self, Interruptible::kResult))
    return false;
  // seq_cst: either the timer thread sees it when the limit passes, or we see that it has passed. Pairs with itself in
  // ScopeTimer::RunAll().
  VisitScopesOfUnwinding(self, [&](CancelNode* node) { node->unended_wait.store(what, std::memory_order_seq_cst); });
  if (CancelLate(self)) Log(what);
  return true;
}

void UnendedWait::End() noexcept {
  VisitScopesOfUnwinding(scheduling_group::CurrentFiber(), [](CancelNode* node) {
    node->unended_wait.store(nullptr, std::memory_order_relaxed);  // It carries nothing.
  });
}

void UnendedWait::Log(const char* what) noexcept {
  WEFT_LOG_EVERY_SECOND(WARNING, what, " goes on after the limit of its scope: while an exception unwinds the stack, ",
                        "only waits that return a result end by it; use the form with a deadline");
}

void YieldAndTestCancelled() {
  scheduling_group::YieldAfterSlice();
  TestCancelled();
}

}  // namespace weft::synchronization
