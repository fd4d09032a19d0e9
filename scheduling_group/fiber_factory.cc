// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber_factory.h"

#include <cstdint>
#include <utility>

#include "weft/scheduling_group/drain.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

// One branch for what most fibers do not ask for.
bool IsPlain(const StartOptions& options) {
  return (reinterpret_cast<std::uintptr_t>(options.name) | reinterpret_cast<std::uintptr_t>(options.execution_context) |
          reinterpret_cast<std::uintptr_t>(options.owner) | reinterpret_cast<std::uintptr_t>(options.scope) |
          options.stack_size | options.guard_size) == 0;
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
  fiber->group_local_ = options.group_local;
  if (!IsPlain(options) && !fiber->SetOptions(options, group != nullptr ? group->options().stack_size : 0))
      [[unlikely]] {
    AbandonFiber(fiber);
    return nullptr;
  }
  return fiber;
}

void DiscardFiber(FiberEntity* fiber) noexcept {
  fiber->callable_(fiber, FiberEntity::CallableOp::kDestroy);
  if (fiber->execution_context != nullptr) fiber_hooks.release_execution_context(fiber);
  AbandonFiber(fiber);
}

void AbandonFiber(FiberEntity* fiber) noexcept {
  fiber->execution_context = nullptr;
  delete[] std::exchange(fiber->name_, nullptr);
  fiber->stack_size_ = 0;
  fiber->guard_size_ = 0;
  if (fiber->cancel_word.scoped()) fiber->LeaveAllScopes();
  fiber->owner_ = nullptr;  // After that: FiberEntity::owner().
  fiber->state_.OnDiscarded();
  EntityPool::GiveBack(fiber);
  TellDrainWaiter();  // It may have been counted.
}

}  // namespace weft::scheduling_group
