// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PartitionCores: divides the cores of a pool, with the workers on them, into groups at the least cost.
//
// The cost of a division is that of its groups, added up. Costs are compared part by part, the weightiest first:
//
//   far_off     workers that a group lacks to half of the least size (GP1)
//   straddling  groups with a part of an L3 domain and something else (GP7)
//   missing     workers that a group lacks to the least size (GP1)
//   mixed       groups with cores of several kinds (GP10)
//   groups      their number (GP1)
//   squares     of the sizes: least where these are equal (GP1)
//
// Cores lie in a row, L3 domain by L3 domain, and dynamic programming cuts the row where that costs least: only
// neighbours in the row can be one group. So the order of the row matters where cores or domains differ. Tried are the
// order of the machine, and those in which an exact search for groups of whole parts packs them: the cores of a domain
// that must be divided; then the other domains, by package, and over all packages. So a division without straddling
// groups is the cheapest one. Where there would be more than kMostStates states, the search leaves the largest parts
// out: these are packed as they fit.
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
  int kind() const { return core->kind; }
};
using Row = std::vector<Item>;

// Returns each group as its pieces, in the order of the row. They refer to `pool`, whose workers have been placed.
std::vector<Row> PartitionCores(const CpuPool& pool, GroupSizes sizes);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_PLAN_CORE_PARTITION_H_
