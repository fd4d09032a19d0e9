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

#include <cstddef>

#include "weft/base/clock.h"

namespace weft::scheduling_group {

// One plain thread at a time. Waits until at most `left_behind` fibers are alive (those of a former runtime that wait
// for what never comes). False: the deadline came first.
[[nodiscard]] bool WaitUntilNoFibers(base::Deadline deadline, std::size_t left_behind = 0);

// Workers, each time they find nothing to do.
void TellDrainWaiter() noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_DRAIN_H_
