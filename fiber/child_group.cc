// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/child_group.h"

#include <utility>

#include "weft/fiber/exception.h"

namespace weft::fiber::detail {

void ChildGroup::Await() {
  scope_.Wait();
  if (exception_ != nullptr) std::rethrow_exception(exception_);
}

void ChildGroup::Fail(std::exception_ptr exception) noexcept {
  // relaxed: the exception is read when all have ended.
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  exception_ = std::move(exception);
  CancelOthers();
}

void ChildGroup::FailNotStarted() { throw FiberNotStarted(); }

}  // namespace weft::fiber::detail
