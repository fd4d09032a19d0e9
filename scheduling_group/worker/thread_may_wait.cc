// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/thread_may_wait.h"

namespace weft::scheduling_group {
namespace {

thread_local bool may_not_wait = false;

}  // namespace

void SetThreadMayWait(bool may_wait) noexcept {
  base::OpaqueBarrier();
  may_not_wait = !may_wait;
}

bool ThreadMayWait() noexcept {
  base::OpaqueBarrier();
  return !may_not_wait;
}

}  // namespace weft::scheduling_group
