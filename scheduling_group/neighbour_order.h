// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// OrderNeighbours: the order in which each group visits the others to steal (GP9). The planner's last step.
#ifndef WEFT_SCHEDULING_GROUP_NEIGHBOUR_ORDER_H_
#define WEFT_SCHEDULING_GROUP_NEIGHBOUR_ORDER_H_

#include <vector>

#include "weft/numa/topology.h"
#include "weft/scheduling_group/planned_group.h"

namespace weft::scheduling_group::planning {

// Sets PlannedGroup::neighbours of all groups.
void OrderNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_NEIGHBOUR_ORDER_H_
