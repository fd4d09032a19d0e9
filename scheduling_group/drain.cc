// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/drain.h"

#include "weft/scheduling_group/entity_pool.h"

namespace weft::scheduling_group {
namespace {

constinit DrainWaiter waiter;  // Has no destructor.

}  // namespace

bool WaitUntilNoFibers(Deadline deadline, std::size_t unfinished) {
  return waiter.Wait(deadline, [=] { return EntityPool::LiveFibers() <= unfinished; });
}

void TellDrainWaiter() noexcept { waiter.Tell(); }

}  // namespace weft::scheduling_group
