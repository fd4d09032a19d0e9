// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/stop_on_cancel.h"

#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel_scope.h"

namespace weft {

StopOnCancel::StopOnCancel() {
  const scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr || self->innermost_scope() == nullptr) return;
  if (IsCancelRequested()) {
    source_.request_stop();  // It has no callbacks yet.
    return;
  }
  watcher_.emplace();
  fiber::detail::ScopeAccess::Spawn(*watcher_, "StopOnCancel", [this] { Watch(); });
}

StopOnCancel::~StopOnCancel() {
  if (!watcher_.has_value()) return;
  no_more_.Set();
  // Not by its destructor, which would cancel the watcher and so request stop; nor by a wait that is cancelled.
  Shielded([this] { watcher_->Wait(); });
}

void StopOnCancel::Watch() noexcept {
  try {
    no_more_.Wait();
  } catch (const FiberCancelled&) {
    // The shield stands outside: what a callback does is not done while an exception is handled.
  }
  // Asked in any case: a cancellation may have ended the caller before this fiber has begun, or has been reached.
  if (synchronization::FindCause(scheduling_group::CurrentFiber()) == nullptr) return;
  Shielded([this] { source_.request_stop(); });
}

}  // namespace weft
