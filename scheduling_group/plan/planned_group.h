// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PlannedGroup: a scheduling group as planned (group_plan.h): its workers, their CPUs and its neighbours.
#ifndef WEFT_SCHEDULING_GROUP_PLAN_PLANNED_GROUP_H_
#define WEFT_SCHEDULING_GROUP_PLAN_PLANNED_GROUP_H_

#include <vector>

namespace weft::scheduling_group {

struct PlannedGroup {
  int node = -1;  // NUMA node (os id) of its workers and memory; -1: not bound
  unsigned workers = 0;
  std::vector<int> worker_cpus;  // os ids; of worker 0, 1 ...
  std::vector<int> cpus;         // os ids, sorted; where its workers may run
  struct Neighbour {
    int group;
    bool same_node;
    int distance;  // between the nodes; 10: the same node, or NUMA is off
    friend bool operator==(const Neighbour&, const Neighbour&) = default;
  };
  std::vector<Neighbour> neighbours;  // nearest first
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PLAN_PLANNED_GROUP_H_
