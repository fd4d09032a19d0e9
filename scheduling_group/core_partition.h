// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PartitionCores: divides the cores of a pool, with the workers on them, into groups.
//
// The third step of the planner (group_plan.h). The cores lie in a row, L3 domain by L3 domain. Dynamic programming
// cuts the row where the groups cost least: first sizes against GP1, then groups against GP7, then the number of
// groups, then unequal sizes. Only neighbours in the row can be one group, so where sizes differ it tries several
// orders of the row.
#ifndef WEFT_SCHEDULING_GROUP_CORE_PARTITION_H_
#define WEFT_SCHEDULING_GROUP_CORE_PARTITION_H_

#include <vector>

#include "weft/scheduling_group/cpu_pool.h"

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

#endif  // WEFT_SCHEDULING_GROUP_CORE_PARTITION_H_
