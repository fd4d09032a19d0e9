// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/child_group.h"

#include <utility>

#include "weft/fiber/exception.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::fiber::detail {

void ChildGroup::Await() {
  scope_.Wait();
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  // Cancelled from outside, while this fiber unwinds, so that Wait() does not say so: there are no results.
  if (!scope_.IsCancelled() && scope_.Cancelled() != 0) throw FiberCancelled(/*by_deadline=*/false);
}

void ChildGroup::Fail(std::exception_ptr exception) noexcept {
  // relaxed: the exception is read when all have ended.
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  exception_ = std::move(exception);
  CancelOthers();
}

void ChildGroup::FailNotStarted() { throw FiberNotStarted(); }

}  // namespace weft::fiber::detail
