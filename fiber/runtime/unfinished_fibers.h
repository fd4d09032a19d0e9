// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Reports the fibers that have not ended when the runtime ends, and what they wait for. For runtime_instance.cc.
#ifndef WEFT_FIBER_RUNTIME_UNFINISHED_FIBERS_H_
#define WEFT_FIBER_RUNTIME_UNFINISHED_FIBERS_H_

#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {
class SchedulingGroup;
}

namespace weft::fiber::detail {

// "fiber 'name' (id 7)".  The fiber may not end meanwhile.
std::string DescribeFiber(const scheduling_group::FiberEntity& fiber);

// While workers run: how many fibers of these groups live, in which states, and the ids of those that run.  Names may
// not be read now: fibers end meanwhile.
void WarnOfFibersAlive(const std::vector<scheduling_group::SchedulingGroup*>& groups, std::chrono::milliseconds waited);

// When the workers have ended: logs each living fiber of these groups (beyond a hundred it only counts), and returns
// how many there are.
std::size_t ReportUnfinishedFibers(const std::vector<scheduling_group::SchedulingGroup*>& groups);

// The same as a list for a message, at most ten. No fiber of the group may run meanwhile.
std::string ListFibersAlive(scheduling_group::SchedulingGroup* group);

// Once, before the first fiber. At exit() the leak checker is shown what living fibers hold on to.
void PrepareForLeakChecker();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_UNFINISHED_FIBERS_H_
