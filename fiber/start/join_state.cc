// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/start/join_state.h"

#include <exception>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/fiber/start/scope_core.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::fiber::detail {

using scheduling_group::FiberEntity;
using synchronization::WaitAccess;
using synchronization::WaitResult;

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

base::RefPtr<JoinState> JoinState::Find(FiberEntity* fiber,
                                        std::uint64_t wanted_id) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  base::RefPtr<JoinState> found;
  fiber->cancel_word.lock();
  // A fiber outside of scopes may be one that is being made, whose owner and id are not to be read.
  if (fiber->innermost_scope() != nullptr && fiber->id() == wanted_id) {
    JoinState* const state = OfFiber(fiber);
    // acquire: its id. Pairs with the release in OnMade(). Before that it cannot be cancelled yet.
    if (state != nullptr && state->scope.owner.load(std::memory_order_acquire) == fiber) {
      found = base::RefPtr<JoinState>(state);
    }
  }
  fiber->cancel_word.unlock();
  return found;
}

JoinState* JoinState::OfFiber(const FiberEntity* fiber) noexcept {
  scheduling_group::FiberOwner* const owner = fiber->owner();
  return owner != nullptr && owner->on_exit == &OnExit ? static_cast<JoinState*>(owner) : nullptr;
}

WaitResult JoinState::Await(Deadline deadline, const char* function) {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  CheckMayAwait(function);
  // Without a deadline the caller promises that the fiber has ended.
  if (!deadline.is_none()) return WaitAccess::Wait(ended, deadline, synchronization::Interruptible::kResult, Reason());
  if (!CheckWillEnd(function)) return WaitResult::kNotified;
  const synchronization::UnendedWait named(function);
  JoinState* const joiner = self != nullptr && !ended.IsSet() ? OfFiber(self) : nullptr;
  if (joiner == nullptr) return WaitAccess::Wait(ended, deadline, synchronization::Interruptible::kYes, Reason());
  joiner->join_edge.Set(this, function);
  CheckNoCycle(joiner);
  const WaitResult result = WaitAccess::Wait(ended, deadline, synchronization::Interruptible::kYes, Reason());
  joiner->join_edge.Clear();
  return result;
}

void JoinState::AwaitUncancelled(const char* function) noexcept {
  CheckMayAwait(function);
  if (!CheckWillEnd(function)) return;
  const synchronization::UnendedWait named(function);
  WaitAccess::WaitUncancelled(ended, Reason());
}

// relaxed: only its address counts.
synchronization::WaitReason JoinState::Reason() const noexcept {
  return {synchronization::WaitKind::kJoin, scope.owner.load(std::memory_order_relaxed)};
}

void JoinState::CheckMayAwait(const char* function) const {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  WEFT_CHECK(self == nullptr || self->id() != id, function, ": ", Describe(), " joins itself");
  if (!ended.IsSet()) scheduling_group::CheckNotForkedChild(function);
}

bool JoinState::CheckWillEnd(const char* function) const {
  if (ended.IsSet() || !scheduling_group::LostFibers::Any()) return true;
  // acquire: the fiber. Pairs with the release in OnMade(). Its entity is another fiber's once it has ended.
  const FiberEntity* const fiber = scope.owner.load(std::memory_order_acquire);
  if (fiber == nullptr || fiber->id() != id || !scheduling_group::LostFibers::Has(fiber)) return true;
  scheduling_group::LostFibers::Fail(function, Describe());
  return false;
}

// noexcept: it needs memory only where the process is to end.
void JoinState::CheckNoCycle(JoinState* of_caller) noexcept {
  const std::size_t length = LengthOfCycle(of_caller, this);
  if (length == 0) return;
  const std::vector<base::RefPtr<JoinState>> members = MembersOfCycle(of_caller, length);
  if (members.empty()) return;
  std::string text;
  for (const base::RefPtr<JoinState>& member : members) {
    if (member->WillBeInterrupted()) return;
    text += base::StrCat(member->Describe(), member.Get() == of_caller ? " is in " : ", which is in ",
                         member->join_edge.function(), "() of ");
  }
  // One may have taken its interruption meanwhile, and so looked like one that has none: its edge went first.
  if (MembersOfCycle(of_caller, length) != members) return;
  WEFT_FATAL(of_caller->join_edge.function(), ": fibers join each other in a cycle, so that none can end: ", text,
             of_caller->Describe());
}

// Whether the join that the fiber is in ends before what it waits for: it is cancelled, or has a deadline.
bool JoinState::WillBeInterrupted() const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  // acquire: the fiber. Pairs with the release in OnMade().
  FiberEntity* const fiber = scope.owner.load(std::memory_order_acquire);
  fiber->cancel_word.lock();
  const bool will_be = fiber->innermost_scope() == nullptr || fiber->id() != id ||
                       synchronization::IsToBeInterrupted(fiber) || !synchronization::EarliestDeadline(fiber).is_none();
  fiber->cancel_word.unlock();
  return will_be;
}

void JoinState::OnExit(scheduling_group::FiberOwner* self) {
  auto* const state = static_cast<JoinState*>(self);
  ScopeCore* const owning_scope = state->owning_scope;
  state->ended.Set();
  state->Release();
  if (owning_scope != nullptr) owning_scope->EndChild();
}

void JoinState::OnMade(void* argument, FiberEntity* fiber) noexcept {
  auto* const state = static_cast<JoinState*>(argument);
  state->id = fiber->id();
  // release: the fiber's chain of scopes. Pairs with the acquire in CancelWalk::Run(). No fence: nobody has the handle.
  state->scope.owner.store(fiber, std::memory_order_release);
  if (state->slot != nullptr) ScopeCore::OnMade(std::exchange(state->slot, nullptr), fiber);
}

void LeaveScopesOfCaller() noexcept {
  // nullptr: in the child of a fork(), which the fiber's end will say.
  if (FiberEntity* const self = scheduling_group::CurrentFiber()) self->LeaveAllScopes();
}

}  // namespace weft::fiber::detail
