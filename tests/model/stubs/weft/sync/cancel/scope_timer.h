// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces sync/cancel/scope_timer.h in model tests: scopes without deadlines. (To the scope a deadline is one more
// canceller.)
#ifndef WEFT_SYNC_CANCEL_SCOPE_TIMER_H_
#define WEFT_SYNC_CANCEL_SCOPE_TIMER_H_

#include "weft/base/deadline.h"
#include "weft/sync/cancel/cancel_node.h"

namespace weft::synchronization {

class ScopeTimer {
 public:
  explicit ScopeTimer(CancelNode*) noexcept {}
  void Disarm() noexcept {}
  void Rearm(FiberEntity*, Deadline) noexcept {}
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_SCOPE_TIMER_H_
