// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PlanGroups: a pure function from a machine and wishes to scheduling groups.
//
// Rules
//   GP1  A group has 8 to 15 workers where there are that many CPUs, fewer on small machines; at most 64 if the wish
//        says so.
//   GP2  No group spans two NUMA nodes, unless the wish turns NUMA off.
//   GP3  Every usable CPU gets a worker unless the wish asks for fewer workers; CPUs of one L3 domain stay together
//        where sizes allow it (they are dealt out in the order node, L3 domain, core).
//   GP4  A group's neighbours are ordered by distance: own node first, then the nearest nodes; ties by group number,
//        starting behind the group itself, so that not all rob the first.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_PLAN_H_
#define WEFT_SCHEDULING_GROUP_GROUP_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "weft/numa/topology.h"

namespace weft::scheduling_group {

struct PlanWishes {
  unsigned workers = 0;     // in all; 0: one per usable CPU, cut by the CPU quota
  unsigned group_size = 0;  // workers per group; 0: planned
  enum class Numa { kAuto, kOn, kOff } numa = Numa::kAuto;
};

struct PlannedGroup {
  int node = -1;  // NUMA node (os id) of its workers and memory; -1: not bound
  unsigned workers = 0;
  std::vector<int> cpus;  // os ids; where its workers may run
  struct Neighbour {
    int group;
    bool same_node;
  };
  std::vector<Neighbour> neighbours;  // nearest first
};

struct GroupPlan {
  std::vector<PlannedGroup> groups;
  unsigned WorkerCount() const;
  std::string ToString() const;  // a line per group
};

// nullopt: the wishes cannot be met; *error is one line that says why.
std::optional<GroupPlan> PlanGroups(const numa::Topology& topology, const PlanWishes& wishes, std::string* error);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_PLAN_H_
