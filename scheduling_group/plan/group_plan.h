// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PlanGroups: a pure function from a machine and wishes to scheduling groups: their number, CPUs and neighbours.
//
// How it works, in five steps:
//   cpu_pool.h          reads the machine, and shares the workers out over the NUMA nodes; places the workers of a node
//                       on cores, L3 domain by L3 domain
//   core_partition.h    cuts the cores of a node into groups where that costs least
//   AssignCpus()        gives each worker its CPU, and its group the further CPUs that it may use (GP8)
//   OrderNeighbours()   the order in which each group visits the others to steal (GP9)
//
// Rules.  "Enough" is one worker for each CPU that may be used (Topology::cpus), or more.
//   GP1  Size.  A group has 8 to 15 workers; 4 to 7 where GP7 cannot be had with 8. It has fewer only where its node
//        has fewer CPUs, where fewer workers per node are wished for, or where the threads of whole cores (GP6) do not
//        add up to such a size.  A wished size (1 to 64) is an upper limit, and half and a quarter of it, rounded up,
//        take the place of the 8 and the 4.  Within all other rules there are as few groups as can be, of sizes as
//        equal as can be.
//   GP2  Nodes. No group spans two NUMA nodes, unless the wish is kOff: then groups are not bound to a node.
//   GP3  Nothing is left over.  With enough workers each CPU has one, and the busiest CPU has at most one more than the
//        idlest; so has, of L3 domains with equally many cores and CPUs in a node, the busiest.  With fewer workers
//        each has a CPU of its own.
//   GP4  Few workers are kept together.  kAuto uses as few nodes as have CPUs enough and leave fewer than 8 workers (or
//        half the wished size) without a core of their own, but no more than get so many workers each; kOn uses all
//        nodes.  In a node L3 domains are filled one after the other, beginning with the largest.
//   GP5  Cores first. No core gets a second worker before each core of the used nodes has one, save to make up a node's
//        first group (GP1): sharing a core loses more than spreading a group over one L3 domain more.
//   GP6  Siblings.  The workers on a core are in one group.  A core that has more than a group may have is divided
//        among groups of its own, as equal as can be.  Neither holds where there are more workers than CPUs.
//   GP7  L3 domains. Groups of whole domains, or groups within one domain; a group with a part of a domain and
//        something else is made only where a group would have fewer than 4 workers without.
//   GP8  Each worker has its planned CPU (worker_cpus): those with low numbers, woken first, are on cores of their own.
//        The group may run on `cpus`: the planned ones, and of those without a worker its cores' siblings and the rest
//        of its L3 domains. No group may run on another's planned CPU, save where workers outnumber CPUs.
//   GP9  Neighbours. All other groups, nearest first: the same L3 domain, package, node, then other nodes by their
//        distance, those of the package before equally far ones. (Groups that span several domains or packages are in
//        the same one if they have one in common.) Among equals each group starts with another one, so that not all
//        steal from the first.
//   GP10 Kinds. A group has fast and slow cores (P and E cores, Topology::Cpu::kind) only where groups of one kind each
//        would be smaller (GP1), or against GP7. A domain with several kinds is filled beginning with the fastest.
// Rejected: one group for each L3 domain whatever its size (32-thread domains contend for one queue, 4-thread ones
// balance badly); a node's whole CPU set as `cpus` of each group (the kernel spreads a group over all L3 domains).
#ifndef WEFT_SCHEDULING_GROUP_PLAN_GROUP_PLAN_H_
#define WEFT_SCHEDULING_GROUP_PLAN_GROUP_PLAN_H_

#include <optional>
#include <string>
#include <vector>

#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/core_partition.h"
#include "weft/scheduling_group/plan/cpu_pool.h"

namespace weft::scheduling_group {

// A scheduling group as planned.
struct PlannedGroup {
  int node = -1;  // NUMA node (os id) of its workers and memory; -1: not bound
  unsigned workers = 0;
  std::vector<int> worker_cpus;  // os ids; of worker 0, 1 ...
  std::vector<int> cpus;         // os ids, sorted; where its workers may run
  struct Neighbour {
    int group;
    bool same_node;
    int distance;               // between the nodes; 10: the same node, or NUMA is off
    bool same_package = false;  // they have a package (socket) in common
    friend bool operator==(const Neighbour&, const Neighbour&) = default;
  };
  std::vector<Neighbour> neighbours;  // nearest first
  std::string name{};                 // named_groups.h; empty: none
};

// The sizes that are planned (GP1), and the largest that may be wished for.
inline constexpr unsigned kMinPlannedGroupSize = 8;
inline constexpr unsigned kMaxPlannedGroupSize = 15;
inline constexpr unsigned kMaxWishedGroupSize = 64;

struct PlanWishes {
  unsigned workers = 0;     // in all; 0: one per usable CPU, cut by the CPU quota
  unsigned group_size = 0;  // at most so many workers per group; 0: planned
  enum class Numa {
    kAuto,  // as many nodes as the workers need
    kOn,    // all nodes, also for a few workers: the memory bandwidth of all
    kOff,   // as if the machine had one node
  } numa = Numa::kAuto;
  // Among equally good places few workers prefer those near this CPU (os id); -1: the lowest numbers. The runtime gives
  // the CPU it starts on, so that processes with a quota do not all crowd into the first L3 domain.
  int near_cpu = -1;
};

struct GroupPlan {
  std::vector<PlannedGroup> groups;
  unsigned WorkerCount() const;
  std::string ToString() const;  // a line per group
};

// nullopt: the wishes cannot be met, and *error is one line that says why.
std::optional<GroupPlan> PlanGroups(const numa::Topology& topology, const PlanWishes& wishes, std::string* error);

}  // namespace weft::scheduling_group

// The last two steps.
namespace weft::scheduling_group::planning {

// Returns the groups of PartitionCores() for `pool`, sorted by their lowest planned CPU, without neighbours.
std::vector<PlannedGroup> AssignCpus(const CpuPool& pool, const std::vector<Row>& groups);

// Sets PlannedGroup::neighbours of all groups.
void OrderNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_PLAN_GROUP_PLAN_H_
