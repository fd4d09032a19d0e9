// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// AssignCpus: the CPU of each worker, and the further CPUs that its group may use (GP8). The planner's fourth step.
#ifndef WEFT_SCHEDULING_GROUP_CPU_ASSIGNMENT_H_
#define WEFT_SCHEDULING_GROUP_CPU_ASSIGNMENT_H_

#include <vector>

#include "weft/scheduling_group/core_partition.h"
#include "weft/scheduling_group/cpu_pool.h"
#include "weft/scheduling_group/planned_group.h"

namespace weft::scheduling_group::planning {

// Returns the groups of PartitionCores() for `pool`, sorted by their lowest planned CPU, without neighbours.
std::vector<PlannedGroup> AssignCpus(const CpuPool& pool, const std::vector<Row>& groups);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_CPU_ASSIGNMENT_H_
