// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/join_state.h"

#include <utility>

#include "weft/scheduling_group/describe_fiber.h"
#include "weft/scheduling_group/park.h"

namespace weft::fiber::detail {

using scheduling_group::FiberEntity;

JoinState::JoinState(std::string fiber_name) : name(std::move(fiber_name)) { on_exit = &OnExit; }

JoinState::~JoinState() = default;

void JoinState::Join(StartPlan* plan) {
  AddRef();
  plan->options.owner = this;
  plan->options.scope = &scope;
  plan->made = &OnMade;
  plan->made_argument = this;
}

std::string JoinState::Describe() const { return scheduling_group::DescribeFiber(name, id); }

void JoinState::OnExit(scheduling_group::FiberOwner* self) {
  auto* const state = static_cast<JoinState*>(self);
  synchronization::ChildTable::Slot* const its_slot = state->slot;
  state->ended.Set();
  state->Release();
  if (its_slot != nullptr) its_slot->on_exit(its_slot);
}

void JoinState::OnMade(void* argument, FiberEntity* fiber) noexcept {
  auto* const state = static_cast<JoinState*>(argument);
  state->id = fiber->id();
  // release: the fiber's chain of scopes. Pairs with the acquire in CancelWalk::Run(). No fence as in
  // EnterScope(): nobody has the handle yet.
  state->scope.owner.store(fiber, std::memory_order_release);
  if (state->slot == nullptr) return;
  synchronization::ChildTable::Fill(state->slot, fiber);
  synchronization::InheritCancellation(fiber);
}

void LeaveScopesOfCaller() noexcept {
  // nullptr: in the child of a fork(), which the fiber's end will say.
  if (FiberEntity* const self = scheduling_group::CurrentFiber()) self->LeaveAllScopes();
}

}  // namespace weft::fiber::detail
