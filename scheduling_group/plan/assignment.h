// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the groups get, the planner's last two steps (group_plan.h): AssignCpus() gives each worker its CPU, and its
// group the further CPUs that it may use (GP8); OrderNeighbours() the order in which each group visits the others to
// steal (GP9).
#ifndef WEFT_SCHEDULING_GROUP_PLAN_ASSIGNMENT_H_
#define WEFT_SCHEDULING_GROUP_PLAN_ASSIGNMENT_H_

#include <vector>

#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/core_partition.h"
#include "weft/scheduling_group/plan/cpu_pool.h"
#include "weft/scheduling_group/plan/planned_group.h"

namespace weft::scheduling_group::planning {

// Returns the groups of PartitionCores() for `pool`, sorted by their lowest planned CPU, without neighbours.
std::vector<PlannedGroup> AssignCpus(const CpuPool& pool, const std::vector<Row>& groups);

// Sets PlannedGroup::neighbours of all groups.
void OrderNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_PLAN_ASSIGNMENT_H_
