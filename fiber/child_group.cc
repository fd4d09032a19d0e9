// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/child_group.h"

#include <utility>

#include "weft/fiber/exception.h"
#include "weft/fiber/uncancelled_wait.h"

namespace weft::fiber::detail {

ChildGroup::~ChildGroup() {
  if (!pending_) return;
  CancelOthers();
  AwaitUncancelled(all_ended_);
}

void ChildGroup::Await() {
  if (pending_) {
    all_ended_.Wait();  // If this is cancelled, the destructor waits on.
    pending_ = false;
  }
  if (exception_ != nullptr) std::rethrow_exception(exception_);
}

void ChildGroup::Fail(std::exception_ptr exception) noexcept {
  // relaxed: the exception is read when all have ended.
  if (failed_.exchange(true, std::memory_order_relaxed)) return;
  exception_ = std::move(exception);
  CancelOthers();
}

void ChildGroup::FailNotStarted() { throw FiberNotStarted(); }

void ChildGroup::End() noexcept {
  // acq_rel: the last one hands on what all others did. Pairs with itself.
  if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_ended_.Set();  // CG2
}

}  // namespace weft::fiber::detail
