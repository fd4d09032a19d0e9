// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CpuPool: the CPUs that groups are made from: those of one NUMA node, or all where NUMA is off.
//
// The planner's first steps (group_plan.h). MakePools() reads the pools from the machine, ChoosePools() picks those
// that the workers need, ShareWorkers() sets the number of workers of each. Then PlaceWorkers() gives each worker a
// core of its pool: cores come before siblings (GP5), and L3 domains are filled one after the other (GP4), but evenly
// with workers beyond the CPUs (GP3).
#ifndef WEFT_SCHEDULING_GROUP_PLAN_CPU_POOL_H_
#define WEFT_SCHEDULING_GROUP_PLAN_CPU_POOL_H_

#include <vector>

#include "weft/numa/machine/topology.h"

namespace weft::scheduling_group::planning {

struct Core {
  int package = 0;
  int l3 = 0;
  int number = 0;
  int kind = 0;             // as in numa::Topology: the larger the faster
  std::vector<int> cpus{};  // os ids, first siblings first
  unsigned workers = 0;     // placed here by PlaceWorkers()
};

struct CpuPool {
  int node = -1;              // os id; -1: NUMA is off
  std::vector<Core> cores{};  // the fast ones first, then by number
  unsigned cpus = 0;
  unsigned workers = 0;  // given by ShareWorkers()
};

// The CPUs of the machine, by node and core.
std::vector<CpuPool> MakePools(const numa::Topology& topology, bool numa_off);

// GP4: the pools of the nodes that are used, near each other, sorted by node.
std::vector<CpuPool> ChoosePools(const numa::Topology& topology, std::vector<CpuPool> pools, unsigned workers,
                                 unsigned min_size, int near_cpu);

// Sets CpuPool::workers. Each pool first gets enough for a group (GP1), then one per core (GP5), then one per CPU
// (GP3); the rest goes in rounds over all CPUs.
void ShareWorkers(unsigned workers, unsigned min_size, std::vector<CpuPool>* pools);

// Places pool->workers: sets Core::workers. Of equally good places it prefers those near `near_cpu` (os id; -1: the
// lowest numbers).
void PlaceWorkers(CpuPool* pool, int near_cpu);

// Shares `total`, or as much as fits, out in proportion to the capacities, by the method of the largest remainder: the
// units left by rounding down go to the largest fractions, the first of equal ones first.
std::vector<unsigned> Apportion(unsigned total, const std::vector<unsigned>& capacities);

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_PLAN_CPU_POOL_H_
