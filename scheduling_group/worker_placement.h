// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PlaceWorkers: the core of its pool that each worker gets: the planner's second step (group_plan.h). Cores come before
// siblings (GP5), and L3 domains are filled one after the other (GP4).
#ifndef WEFT_SCHEDULING_GROUP_WORKER_PLACEMENT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_PLACEMENT_H_

#include "weft/scheduling_group/cpu_pool.h"

namespace weft::scheduling_group::planning {

// Places pool->workers: sets Core::workers. Of equally good places it prefers those near `near_cpu` (os id; -1: the
// lowest numbers).
void PlaceWorkers(CpuPool* pool, int near_cpu);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_WORKER_PLACEMENT_H_
