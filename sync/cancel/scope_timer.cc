// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel/scope_timer.h"

#include <array>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::synchronization {

ScopeTimer::ScopeTimer(CancelNode* node) noexcept : node_(node) {
  fire = [](timer::TimerNode* self, timer::FireContext* context) {
    context->Defer(static_cast<ScopeTimer*>(static_cast<timer::WaitTimer*>(self)));
  };
  run = &RunAll;
}

void ScopeTimer::RunAll(timer::DeferredTimer* const* due, std::size_t count) {
  std::array<CancelNode*, timer::FireContext::kCapacity> nodes{};
  for (std::size_t i = 0; i < count; ++i) nodes[i] = static_cast<ScopeTimer*>(due[i])->node_;
  CancelAll(nodes.data(), count, CancelReason::kDeadline);
  for (std::size_t i = 0; i < count; ++i) {
    // seq_cst: pairs with itself in UnendedWait::Begin().
    const char* const unended = nodes[i]->unended_wait.load(std::memory_order_seq_cst);
    if (WEFT_UNLIKELY(unended != nullptr)) UnendedWait::Log(unended);
    static_cast<ScopeTimer*>(due[i])->over_.Set();  // CE1
  }
}

void ScopeTimer::Arm(FiberEntity* self, Deadline deadline) noexcept {
  // relaxed: it carries nothing. A cancellation that comes later leaves the timer armed, which is harmless.
  if (deadline.is_none() || node_->cancelled.load(std::memory_order_relaxed) != CancelReason::kNone) return;
  // By the present group: the fiber may leave the scope in another.
  timer::TimerWorker* const timers = timer::TimerWorker::Of(self->group());
  if (timers == nullptr && self->group()->stopping()) return;  // As in Waiter::AwaitFiber().
  WEFT_CHECK(timers != nullptr, "CancelScope: a deadline in a scheduling group that has no TimerWorker");
  WEFT_CHECK(!over_.IsSet(), "CancelScope: a timer that has fired is armed again");  // CE1
  armed_ = true;
  timers->Arm(this, deadline);
}

void ScopeTimer::Disarm() noexcept {
  if (!armed_) return;
  armed_ = false;
  if (!timer::TimerWorker::Disarm(this)) WaitAccess::WaitUncancelled(over_);
}

void ScopeTimer::Rearm(FiberEntity* self, Deadline deadline) noexcept {
  Disarm();
  if (!SetDeadline(self, node_, deadline)) Arm(self, deadline);
}

}  // namespace weft::synchronization
