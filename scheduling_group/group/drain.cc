// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/drain.h"

#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/driven_groups.h"

namespace weft::scheduling_group {
namespace {

constinit DrainWaiter waiter;  // Has no destructor.

// Never too few, and exact (EP3) where no fiber of a loop starts or ends meanwhile. A loop looks for the waiter, too.
std::size_t LiveFibersOutsideOfLoops() {
  const std::size_t started = DrivenGroups::FibersStarted();
  const std::size_t live = EntityPool::LiveFibers();
  return live - started + DrivenGroups::FibersFinished();
}

}  // namespace

bool WaitUntilNoFibers(Deadline deadline, std::size_t unfinished) {
  return waiter.Wait(deadline, [=] { return LiveFibersOutsideOfLoops() <= unfinished; });
}

void TellDrainWaiter() noexcept { waiter.Tell(); }

}  // namespace weft::scheduling_group
