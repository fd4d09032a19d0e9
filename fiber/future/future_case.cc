// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/future/future_case.h"

#include "weft/sync/wait/wait_queue.h"

namespace weft::fiber::detail {

using synchronization::WaitResult;

FutureCase::Entered FutureCase::Enter() noexcept {
  over_.Reset();
  Waiting();  // Before Attach(): Run() may come at once.
  if (core_->Attach(this)) return Entered::kWaits;
  return ClaimSelf() ? Entered::kTaken : Entered::kDecided;
}

void FutureCase::Leave() noexcept {
  if (!core_->Detach()) synchronization::WaitAccess::WaitUncancelled(over_);  // FC1
}

FutureCallback* FutureCase::Run() noexcept {
  if (waiter().Claim(WaitResult::kNotified)) {
    waiter().Wake();
  } else {
    over_.Set();
  }
  return nullptr;
}

}  // namespace weft::fiber::detail
