// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel_scope.h"

#include <memory>

#include "weft/base/report/check.h"
#include "weft/base/thread/exit.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

using synchronization::CancelNode;
using synchronization::CancelReason;
using synchronization::FiberEntity;

struct CancelHandle::State {
  base::SpinLock lock;
  CancelNode* node = nullptr;  // nullptr: it has gone
};

DeadlineExceeded::DeadlineExceeded() : std::runtime_error("the deadline has passed") {}
DeadlineExceeded::~DeadlineExceeded() = default;

bool CancelHandle::Cancel() const noexcept {
  return state_ != nullptr && synchronization::CancelIfThere(&state_->lock, &state_->node);
}

CancelScope::CancelScope(Deadline deadline) noexcept : CancelScope(deadline, /*shielded=*/false) {}

CancelScope::CancelScope(Deadline deadline, bool shielded) noexcept {
  node_.shielded = shielded;
  node_.timer = &timer_;
  // relaxed, here and below: it carries nothing else.
  node_.deadline.store(deadline.time_point().time_since_epoch().count(), std::memory_order_relaxed);
}

CancelScope::~CancelScope() {
  WEFT_CHECK(runs_in_ == nullptr || base::IsInExit(),
             "CancelScope::~CancelScope: it is destroyed while a fiber runs in it");
  if (handle_ == nullptr) return;
  base::SpinLockGuard guard(handle_->lock);
  handle_->node = nullptr;
}

class CancelScope::Inside {
 public:
  Inside(CancelScope* scope, FiberEntity* self) noexcept : scope_(scope), self_(self) {
    WEFT_CHECK(scope->runs_in_ == nullptr, "CancelScope::Run: a fiber runs in this scope already");
    scope->runs_in_ = self;
    if (!scope->deadline().is_none()) BeginWithDeadline(&scope->node_);
    EnterScope(self, &scope->node_);
    scope->timer_.Arm(self, scope->deadline());
  }
  ~Inside() {
    scope_->timer_.Disarm();
    LeaveScope(self_, &scope_->node_);
    scope_->runs_in_ = nullptr;
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  CancelScope* const scope_;
  FiberEntity* const self_;
};

bool CancelScope::RunBody(void (*body)(void*), void* argument) {
  FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr) {
    body(argument);
    return true;
  }
  const Inside inside(this, self);
  try {
    body(argument);
    return true;
  } catch (const FiberCancelled& cancelled) {
    if (!EndsHere(self, cancelled)) throw;
    return false;
  }
}

// Before the scope is left. A cancellation that comes from outside goes on.
bool CancelScope::EndsHere(const FiberEntity* self, const FiberCancelled& cancelled) const noexcept {
  if (IsCauseOf(cancelled)) return true;
  // One that says nothing of a scope around it, or of one that has gone: ends in the outermost cancelled scope.
  return synchronization::FindCause(self) == &node_ && !synchronization::IsAround(cancelled.cause_, &node_);
}

bool CancelScope::IsCauseOf(const FiberCancelled& cancelled) const noexcept {
  return cancelled.cause_ == &node_ && IsCancelled();
}

bool CancelScope::Cancel() noexcept { return synchronization::Cancel(&node_); }

bool CancelScope::IsCancelled() const noexcept {
  // acquire: what was done before Cancel(). Pairs with the release in Mark() (cancel_node.cc).
  return node_.cancelled.load(std::memory_order_acquire) != CancelReason::kNone;
}

bool CancelScope::DeadlineHasPassed() const noexcept {
  return node_.cancelled.load(std::memory_order_acquire) == CancelReason::kDeadline;  // As above.
}

void CancelScope::SetDeadline(Deadline deadline) noexcept {
  if (runs_in_ == nullptr) {
    node_.deadline.store(deadline.time_point().time_since_epoch().count(), std::memory_order_relaxed);
    return;
  }
  WEFT_CHECK(runs_in_ == scheduling_group::CurrentFiber(),
             "CancelScope::SetDeadline: the caller is not the fiber that runs in the scope");
  timer_.Rearm(runs_in_, deadline);
}

Deadline CancelScope::deadline() const noexcept {
  return Deadline(Deadline::TimePoint(std::chrono::nanoseconds(node_.deadline.load(std::memory_order_relaxed))));
}

CancelHandle CancelScope::Handle() {
  if (handle_ == nullptr) {
    handle_ = std::make_shared<CancelHandle::State>();
    handle_->node = &node_;
  }
  CancelHandle handle;
  handle.state_ = handle_;
  return handle;
}

void TestCancel() { synchronization::TestCancelled(); }

bool IsCancelRequested() noexcept {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || !self->cancel_word.pending_or_timed()) return false;
  return synchronization::MayBeCancelled(self, synchronization::Interruptible::kResult) &&
         synchronization::IsToEnd(self);
}

Deadline CurrentDeadline() noexcept {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? synchronization::EarliestDeadline(self) : Deadline::None();
}

std::chrono::nanoseconds TimeLeft() noexcept { return CurrentDeadline().remaining(); }

void CancelAfter(Deadline deadline) noexcept {
  FiberEntity* const self = scheduling_group::CurrentFiber();
  CancelNode* const node = self != nullptr ? self->innermost_scope() : nullptr;
  WEFT_CHECK(node != nullptr && node->timer != nullptr && node->owner.load(std::memory_order_relaxed) == self,
             "CancelAfter: the caller is not in a CancelScope of its own");
  node->timer->Rearm(self, deadline);
}

namespace synchronization {

void ThrowDeadlineExceeded() { throw DeadlineExceeded(); }

}  // namespace synchronization
}  // namespace weft
