// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/fiber_factory.h"

#include <cstdint>

#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

// One branch for what most fibers do not ask for. The scope is not in the cold fields.
bool IsPlain(const StartOptions& options) {
  return (reinterpret_cast<std::uintptr_t>(options.name) | reinterpret_cast<std::uintptr_t>(options.execution_context) |
          reinterpret_cast<std::uintptr_t>(options.owner) | options.stack_size | options.guard_size) == 0;
}

}  // namespace

FiberEntity* AllocateFiber(SchedulingGroup* group, const StartOptions& options) {
  FiberEntity* fiber = EntityPool::Take(group != nullptr ? group->entity_arena() : EntityPool::kAnywhere);
  if (fiber == nullptr) [[unlikely]] {
    return nullptr;
  }
  fiber->state_.OnCreated();
  fiber->ready_stamp = {};  // Its last one may have been refused, stamped.
  fiber->set_group(group);
  fiber->flags_ = static_cast<std::uint8_t>((options.group_local ? FiberEntity::kGroupLocal : 0) |
                                            (options.placed ? FiberEntity::kPlaced : 0) |
                                            options.priority << FiberEntity::kPriorityShift);
  if (!IsPlain(options) && !fiber->SetOptions(options, group != nullptr ? group->options().stack_size : 0))
      [[unlikely]] {
    AbandonFiber(fiber);
    return nullptr;
  }
  // After SetOptions(): whoever finds the fiber in a scope finds its owner (JS4 in fiber/start/join_state.h).
  if (options.scope != nullptr) {
    fiber->innermost_if_scoped = options.scope;
    fiber->cancel_word.BeginScoped();
  }
  return fiber;
}

void DiscardFiber(FiberEntity* fiber) noexcept {
  fiber->callable_(fiber, FiberEntity::CallableOp::kDestroy);
  if (fiber->execution_context() != nullptr) fiber_hooks.release_execution_context(fiber);
  AbandonFiber(fiber);
}

void AbandonFiber(FiberEntity* fiber) noexcept {
  if (fiber->cancel_word.scoped()) fiber->LeaveAllScopes();
  static_cast<void>(fiber->ResetColdFields());  // After that: FiberEntity::owner().
  fiber->state_.OnDiscarded();
  EntityPool::GiveBack(fiber);
  TellDrainWaiter();  // It may have been counted.
}

}  // namespace weft::scheduling_group
