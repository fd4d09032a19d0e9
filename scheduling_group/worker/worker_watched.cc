// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a worker does besides before a fiber leaves it, while that is watched or recorded (watch/group_attention.h).

#include "weft/context/switch/context.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/watch/group_attention.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {

// A fiber is about to leave, and fibers are watched (group_attention.h): runs its hooks, and begins another turn.
WEFT_NOINLINE WEFT_COLD void Worker::BeforeLeaving(FiberEntity* self) {
  const context::KeepErrno keep(errno_location);
  // acquire: pairs with the release in OnFiberYield(). nullptr: no fiber has ever had a hook.
  if (const YieldHookRunner run = yield_hook_runner.load(std::memory_order_acquire)) run(self);
  slice_.BeginTurnAgain();  // Also if there is nobody to yield to.
}

WEFT_NOINLINE FiberEntity* Worker::NextFiberWithAttention(FiberEntity* self, EventKind how) {
  if (group->attention().only_recorded()) [[likely]] {  // The way of NextFiberFor().
    FiberEntity* next = group->PopWithoutAttention(index);
    if (next != nullptr && !PrepareToEnter(next)) [[unlikely]] {
      next = FindFiber();
    }
    if (next != nullptr || how == EventKind::kParked) {
      Recorder::Switched(this, how, next, how == EventKind::kParked ? self->wait_reason().word() : self->id());
    }
    return next;
  }
  BeforeLeaving(self);
  FiberEntity* const next = FindFiber();
  // One that yields to nobody goes on. (To the loop it goes, and while the group stops: then it is not recorded.)
  if (next != nullptr || how == EventKind::kParked) RecordSwitch(how, self, next);
  return next;
}

WEFT_NOINLINE FiberEntity* Worker::NextFiberAfterRecorded(FiberEntity* self) {
  FiberEntity* const next = Pop();
  if (group->attention().recorded()) Recorder::Ended(this, self, self->has_cold_fields() ? self->name() : "", next);
  return next;
}

WEFT_NOINLINE void Worker::RecordSwitch(EventKind how, FiberEntity* self, FiberEntity* next) noexcept {
  if (!group->attention().recorded()) return;
  Recorder::Switched(this, how, next,
                     how == EventKind::kParked ? self->wait_reason().word()
                     : self != nullptr         ? self->id()
                                               : 0);
}

}  // namespace weft::scheduling_group
