// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Waiting until all fibers of the process are over. For the runtime's end.
//
//   last worker                            waiter
//   -----------                            ------
//   counts the fiber's end                 registers
//   full fence                             full fence
//   idle: looks for a waiter, wakes it     looks at the number of fibers
//
// Either the waiter sees that none is left or the worker sees the waiter.
#ifndef WEFT_SCHEDULING_GROUP_DRAIN_H_
#define WEFT_SCHEDULING_GROUP_DRAIN_H_

#include "weft/base/clock.h"

namespace weft::scheduling_group {

// One plain thread at a time. False: the deadline came first.
[[nodiscard]] bool WaitUntilNoFibers(base::Deadline deadline);

// Workers, each time they find nothing to do.
void TellDrainWaiter() noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_DRAIN_H_
