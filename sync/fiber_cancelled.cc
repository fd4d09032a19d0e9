// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_cancelled.h"

#include <exception>
#include <utility>

#include "weft/scheduling_group/park.h"
#include "weft/sync/cancel_node.h"
#include "weft/sync/wait_queue.h"

namespace weft::synchronization {

WEFT_COLD void ThrowInterrupted() {
  FiberEntity* const self = scheduling_group::CurrentFiber();
  if (std::exception_ptr injected = TakeInjected(self)) std::rethrow_exception(std::move(injected));
  const CancelNode* const cause = FindCause(self);  // It has acquired `cancelled`, so that relaxed is enough below.
  throw FiberCancelled(cause != nullptr && cause->cancelled.load(std::memory_order_relaxed) == CancelReason::kDeadline);
}

void TestCancelled() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self != nullptr && self->cancel_word.pending() && MayBeCancelled(self)) ThrowInterrupted();
}

void TestCancelledByChain() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (MayBeCancelled(self) && (self->cancel_word.pending() || FindCause(self) != nullptr)) ThrowInterrupted();
}

void YieldAndTestCancelled() {
  scheduling_group::YieldAfterSlice();
  TestCancelled();
}

}  // namespace weft::synchronization
