// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PartitionCores: divides the cores of a pool, with the workers on them, into groups.
//
// The third step of the planner (group_plan.h). The cores lie in a row, L3 domain by L3 domain. Dynamic programming
// cuts the row where that costs least: what counts is first the workers below or above the sizes of GP1, then the
// groups against GP7, the number of groups, and how unequal they are. Only neighbours in the row can be one group:
// where sizes differ it tries several orders.
#ifndef WEFT_SCHEDULING_GROUP_PLAN_CORE_PARTITION_H_
#define WEFT_SCHEDULING_GROUP_PLAN_CORE_PARTITION_H_

#include <vector>

#include "weft/scheduling_group/plan/cpu_pool.h"

namespace weft::scheduling_group::planning {

// The number of workers that a group should have.
struct GroupSizes {
  unsigned min;
  unsigned max;
};

// A piece of a group: a core with its workers, or some of them.
struct Item {
  const Core* core;
  unsigned first_worker;  // among those on the core
  unsigned workers;
  bool alone;  // must be a group of its own (GP6)
  int package() const { return core->package; }
  int l3() const { return core->l3; }
};
using Row = std::vector<Item>;

// Returns each group as its pieces, in the order of the row. They refer to `pool`, whose workers have been placed.
std::vector<Row> PartitionCores(const CpuPool& pool, GroupSizes sizes);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_PLAN_CORE_PARTITION_H_
