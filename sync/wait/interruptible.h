// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Interruptible: what a wait asks before it begins: whether a cancellation may end it, and whether one does already.
//
// While an exception unwinds the stack a wait cannot throw. Then a function that returns nothing waits until it has
// what it promises. One that returns a result can say that it has not, and does when a scope is cancelled that the
// fiber has entered since the unwinding began: the limit of a destructor's ShieldedFor() (cancel_node.h).
//
// The calling fiber, all functions. Defined in cancel_node.cc, which the waits below it do not include.
#ifndef WEFT_SYNC_WAIT_INTERRUPTIBLE_H_
#define WEFT_SYNC_WAIT_INTERRUPTIBLE_H_

#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"

namespace weft::synchronization {

// Whether a wait is a cancellation point.
enum class Interruptible : std::uint8_t {
  kNo,
  kYes,     // its function returns nothing, or what it has waited for
  kResult,  // its function returns a result that can say that the wait was in vain
};

// Whether the fiber's stack is being unwound, and its innermost scope was entered since that began.
bool IsInScopeOfUnwinding(const scheduling_group::FiberEntity* self) noexcept;

// Whether the calling fiber's waits can be cancelled now. nullptr: a thread. One load for fibers outside of scopes.
inline bool MayBeCancelled(const scheduling_group::FiberEntity* self, Interruptible how) noexcept {
  if (how == Interruptible::kNo || self == nullptr || !self->cancel_word.scoped()) return false;
  if (WEFT_LIKELY(!scheduling_group::IsUnwinding())) return true;
  return how == Interruptible::kResult && IsInScopeOfUnwinding(self);
}

// Cancels the scopes that count for the fiber and whose deadline has passed. True: there is one. Holding no lock.
bool CancelLate(const scheduling_group::FiberEntity* self) noexcept;

// At a cancellation point of a fiber that may be cancelled: whether it is. Holding no lock.
inline bool IsToEnd(const scheduling_group::FiberEntity* self) noexcept {
  return WEFT_UNLIKELY(self->cancel_word.pending_or_timed()) && (self->cancel_word.pending() || CancelLate(self));
}

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_INTERRUPTIBLE_H_
