// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/start/scope_core.h"

#include <mutex>
#include <new>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::fiber::detail {

using scheduling_group::FiberEntity;
using synchronization::ChildTable;

ScopeCore::ScopeCore(ScopePolicy policy, std::size_t limit, bool nested)
    : FiberOwner{&OnChildExit}, policy_(policy), limit_(limit), units_(static_cast<std::ptrdiff_t>(limit)) {
  node_.children = &children_;
  node_.timer = &timer_;
  node_.covers_owner.store(false, std::memory_order_relaxed);  // Nobody is inside yet.
  if (nested) owner_ = scheduling_group::CurrentFiber();
  if (owner_ != nullptr) synchronization::EnterScope(owner_, &node_);
}

ScopeCore::~ScopeCore() {
  if (lost_) return;
  WEFT_CHECK(children_.live() == 0, "FiberScope: a fiber was spawned while the scope was destroyed");
  timer_.Disarm();
  if (owner_ == nullptr) return;
  WEFT_CHECK(scheduling_group::CurrentFiber() == owner_, "FiberScope: destroyed by another fiber than it was made by");
  synchronization::LeaveScope(owner_, &node_);
}

ScopeCore::Slot* ScopeCore::BeginSpawn() {
  if (limit_ != 0) AcquireUnit();
  const bool by_owner = owner_ != nullptr && scheduling_group::CurrentFiber() == owner_;
  WEFT_CHECK(!by_owner || !awaits_, "FiberScope: its owner spawns while it waits (from a hook of its fiber)");
  Slot* const slot = by_owner ? children_.TakeByOwner() : children_.Take();
  if (slot == nullptr && limit_ != 0) units_.Release();
  return slot;
}

void ScopeCore::AcquireUnit() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || !IsChild(self) || self->cancel_word.pending()) return units_.Acquire();
  synchronization::BeginCancellationPoint();
  if (units_.TryAcquire()) return;
  // It will not wait for ever, even if the cancellation has not come to its word yet. So it is not counted (FO5).
  if (synchronization::IsToBeInterrupted(self) || !synchronization::EarliestDeadline(self).is_none()) {
    return units_.Acquire();
  }
  struct Counted {
    ~Counted() { count.fetch_sub(1, std::memory_order_relaxed); }
    base::Atomic<std::size_t>& count;
  } counted{children_that_wait_};
  // relaxed: it carries nothing; FO5 is about the order of the counter alone.
  WEFT_CHECK(
      children_that_wait_.fetch_add(1, std::memory_order_relaxed) + 1 < limit_,
      "FiberScope: all children that may run at a time (", limit_,
      ") wait in Spawn() of their own scope, and so for their own end: the limit is to be larger than the number "
      "of children that spawn");
  units_.Acquire();
}

// Whether the fiber itself was spawned into this scope.
bool ScopeCore::IsChild(const FiberEntity* fiber) const noexcept {
  const auto* scope = fiber->innermost_scope();
  // relaxed: the fiber is the caller, whose chain nobody else changes.
  while (scope != nullptr && scope->owner.load(std::memory_order_relaxed) == fiber) scope = scope->parent;
  return scope == &node_;
}

void ScopeCore::NotStarted(Slot* slot) noexcept {
  not_started_.fetch_add(1, std::memory_order_relaxed);
  if (slot != nullptr) children_.GiveBack(slot);
  EndChild();
}

void ScopeCore::Adopt(Slot** slot, StartPlan* plan) noexcept {
  plan->options.scope = &node_;
  plan->made = &OnMade;
  plan->made_argument = slot;
}

void ScopeCore::OnMade(void* slot, FiberEntity* fiber) noexcept {
  ChildTable::Fill(std::exchange(*static_cast<Slot**>(slot), nullptr), fiber);
  synchronization::InheritCancellation(fiber);
}

void ScopeCore::RunChild(void (*procedure)(void*), void* argument) {
  try {
    procedure(argument);
    OnSucceeded();
  } catch (const FiberCancelled&) {
    OnCancelled();
  } catch (...) {
    OnFailed(std::current_exception());
  }
  // nullptr: in the child of a fork(), which the fiber's end will say.
  FiberEntity* const child = scheduling_group::CurrentFiber();
  if (child == nullptr) return;
  child->LeaveAllScopes();
  child->set_exit_owner(this);
}

void ScopeCore::OnSucceeded() noexcept {
  if (policy_ == ScopePolicy::kFirstSuccess) Cancel();
}

void ScopeCore::OnFailed(std::exception_ptr exception) noexcept {
  failed_.fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    try {
      exceptions_.push_back(std::move(exception));
    } catch (const std::bad_alloc&) {
      WEFT_LOG_EVERY_SECOND(ERROR, "FiberScope: no memory to keep an exception of a fiber");
    }
  }
  if (policy_ == ScopePolicy::kAllMustSucceed) Cancel();  // FO4
}

void ScopeCore::OnChildExit(FiberOwner* self) { static_cast<ScopeCore*>(self)->EndChild(); }

void ScopeCore::EndChild() noexcept {
  if (limit_ != 0) units_.Release();
  if (children_.End()) all_ended_.Set();  // FO2
}

void ScopeCore::SetDeadline(Deadline deadline) noexcept {
  FiberEntity* const self = scheduling_group::CurrentFiber();
  WEFT_CHECK(self != nullptr, "FiberScope: a deadline outside of fibers");
  timer_.Rearm(self, deadline);
}

void ScopeCore::SetCovers(bool covers) noexcept {
  if (owner_ != nullptr) synchronization::SetCoversOwner(owner_, &node_, covers);
}

void ScopeCore::CheckMayAwait() const noexcept {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || self == owner_) return;
  for (const auto* scope = self->innermost_scope(); scope != nullptr; scope = scope->parent) {
    WEFT_CHECK(scope != &node_, "FiberScope: one of its fibers waits for the end of all, and so for its own");
  }
}

void ScopeCore::Await() noexcept {
  if (BeginAwait()) AwaitLast();
}

void ScopeCore::CancelAndAwait() noexcept {
  if (!BeginAwait()) return;
  Cancel();
  AwaitLast();
}

bool ScopeCore::CheckWillEnd(const char* waiter) noexcept {
  if (lost_) return false;
  if (!scheduling_group::LostFibers::Any()) return true;
  const FiberEntity* const child = children_.Find(&scheduling_group::LostFibers::Has);
  if (child == nullptr) return true;
  scheduling_group::LostFibers::Fail(waiter, child);
  lost_ = true;
  return false;
}

// False: no child is left, or nothing waits for them.
bool ScopeCore::BeginAwait() noexcept {
  CheckMayAwait();
  if (!CheckWillEnd("FiberScope")) return false;
  return children_.BeginWait();
}

void ScopeCore::AwaitLast() noexcept {
  awaits_ = true;
  const synchronization::UnendedWait named("FiberScope::Wait()");
  synchronization::WaitAccess::WaitUncancelled(all_ended_, {synchronization::WaitKind::kScope, this});
  awaits_ = false;
  all_ended_.Reset();
  children_.EndWait();
}

void ScopeCore::ThrowFailure() {
  if (policy_ == ScopePolicy::kCollect) return;
  if (policy_ == ScopePolicy::kFirstSuccess && succeeded() != 0) return;
  std::exception_ptr first;
  {
    const std::scoped_lock lock(mutex_);
    if (!exceptions_.empty()) first = exceptions_.front();
    exceptions_.clear();
  }
  if (first != nullptr) std::rethrow_exception(std::move(first));
}

std::vector<std::exception_ptr> ScopeCore::TakeExceptions() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(exceptions_, {});
}

}  // namespace weft::fiber::detail
