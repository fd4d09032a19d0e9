// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces fiber/join_state.h in model tests: what a scope's child needs of it.
#ifndef WEFT_FIBER_JOIN_STATE_H_
#define WEFT_FIBER_JOIN_STATE_H_

#include "weft/base/thread_annotations.h"
#include "weft/scheduling_group/cancel_lock.h"
#include "weft/scheduling_group/park.h"

namespace weft::fiber::detail {

// As FiberEntity::LeaveAllScopes().
inline void LeaveScopesOfCaller() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  scheduling_group::LockAsOwner(&self->cancel_word);
  self->innermost_scope = nullptr;
  scheduling_group::UnlockAsOwner(&self->cancel_word, 0);
}

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_JOIN_STATE_H_
