// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/scope_timer.h"

#include <array>

#include "weft/base/check.h"
#include "weft/sync/wait_access.h"
#include "weft/timer/fire_context.h"
#include "weft/timer/timer_worker.h"

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
  for (std::size_t i = 0; i < count; ++i) static_cast<ScopeTimer*>(due[i])->over_.Set();  // CE1
}

void ScopeTimer::Arm(FiberEntity* self, Deadline deadline) noexcept {
  if (deadline.is_none()) return;
  // By the present group: the fiber may leave the scope in another.
  timer::TimerWorker* const timers = timer::TimerWorker::Of(self->group());
  if (timers == nullptr && self->group()->stopping()) return;  // As in Waiter::AwaitFiber().
  WEFT_CHECK(timers != nullptr, "CancelScope: a deadline in a scheduling group that has no TimerWorker");
  armed_ = true;
  timers->Arm(this, deadline);
}

void ScopeTimer::Disarm() noexcept {
  if (!armed_) return;
  armed_ = false;
  if (timer::TimerWorker::Disarm(this)) return;
  WaitAccess::WaitUncancelled(over_);
  over_.Reset();
}

void ScopeTimer::Rearm(FiberEntity* self, Deadline deadline) noexcept {
  Disarm();
  Arm(self, deadline);
}

}  // namespace weft::synchronization
