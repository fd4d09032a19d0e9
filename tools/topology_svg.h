// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The picture of a plan: packages, nodes and L3 domains as nested boxes; for each core a column of cells, one for each
// of its CPUs, in the colour of the group whose worker runs there; arrows from a group to the one that it steals from
// first.
//
// The same plan always gives the same text, so that tools/pictures.sh can compare pictures in the repository.
#ifndef WEFT_TOOLS_TOPOLOGY_SVG_H_
#define WEFT_TOOLS_TOPOLOGY_SVG_H_

#include <cstdint>
#include <string>

#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/group_plan.h"

namespace weft::tools {

struct Picture {
  const numa::Topology& machine;
  const scheduling_group::GroupPlan& plan;
  std::string title;
  std::int64_t steal_every_n;             // in a node; 0: never
  std::int64_t cross_node_steal_every_n;  // between nodes, the nearest
};

std::string DrawTopology(const Picture& picture);

}  // namespace weft::tools

#endif  // WEFT_TOOLS_TOPOLOGY_SVG_H_
