// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/group_plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <sstream>
#include <utility>

#include "weft/numa/machine/cpu_list.h"
#include "weft/scheduling_group/plan/assignment.h"
#include "weft/scheduling_group/plan/core_partition.h"
#include "weft/scheduling_group/plan/cpu_pool.h"

namespace weft::scheduling_group {
namespace {

// "5-23 0-4": the numbers in this order, runs of three and more shortened.
std::string FormatOrder(const std::vector<int>& numbers) {
  std::ostringstream out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (last < i + 2) last = i;
    out << ' ' << numbers[i];
    if (last > i) out << '-' << numbers[last];
    i = last + 1;
  }
  return out.str();
}

}  // namespace

unsigned GroupPlan::WorkerCount() const {
  return std::accumulate(groups.begin(), groups.end(), 0U, [](unsigned sum, auto& g) { return sum + g.workers; });
}

std::string GroupPlan::ToString() const {
  std::ostringstream out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const PlannedGroup& group = groups[g];
    out << "group " << g << ": " << group.workers << (group.workers == 1 ? " worker" : " workers");
    if (group.node >= 0) out << ", node " << group.node;
    std::vector<int> planned = group.worker_cpus;
    std::sort(planned.begin(), planned.end());
    planned.erase(std::unique(planned.begin(), planned.end()), planned.end());
    out << ", CPUs " << numa::FormatCpuList(planned);
    if (planned != group.cpus) out << " (may use " << numa::FormatCpuList(group.cpus) << ')';
    for (std::size_t n = 0; n < group.neighbours.size();) {
      const int distance = group.neighbours[n].distance;
      const bool same_node = group.neighbours[n].same_node;
      std::vector<int> equal;
      for (; n < group.neighbours.size() && group.neighbours[n].distance == distance &&
             group.neighbours[n].same_node == same_node;
           ++n) {
        equal.push_back(group.neighbours[n].group);
      }
      if (same_node) {
        out << "; steals from" << FormatOrder(equal);
      } else {
        out << "; at distance " << distance << " from" << FormatOrder(equal);
      }
    }
    out << '\n';
  }
  return out.str();
}

std::optional<GroupPlan> PlanGroups(const numa::Topology& topology, const PlanWishes& wishes, std::string* error) {
  if (topology.cpus.empty()) {
    *error = "no CPU to plan for";
    return std::nullopt;
  }
  if (wishes.group_size > kMaxWishedGroupSize) {
    *error = "group size " + std::to_string(wishes.group_size) + " is not in 0.." + std::to_string(kMaxWishedGroupSize);
    return std::nullopt;
  }
  const unsigned workers = wishes.workers != 0 ? wishes.workers : topology.UsableCpuCount();
  planning::GroupSizes sizes{.min = kMinPlannedGroupSize, .max = kMaxPlannedGroupSize};
  if (wishes.group_size != 0) sizes = {.min = (wishes.group_size + 1) / 2, .max = wishes.group_size};

  using Numa = PlanWishes::Numa;
  std::vector<planning::CpuPool> pools =
      planning::MakePools(topology, wishes.numa == Numa::kOff && topology.nodes.size() > 1);
  if (wishes.numa == Numa::kAuto) {
    pools = planning::ChoosePools(topology, std::move(pools), workers, sizes.min, wishes.near_cpu);
  }
  planning::ShareWorkers(workers, sizes.min, &pools);
  GroupPlan plan;
  for (planning::CpuPool& pool : pools) {
    if (pool.workers == 0) continue;
    planning::PlaceWorkers(&pool, wishes.near_cpu);
    std::vector<PlannedGroup> groups = planning::AssignCpus(pool, planning::PartitionCores(pool, sizes));
    std::move(groups.begin(), groups.end(), std::back_inserter(plan.groups));
  }
  planning::OrderNeighbours(topology, &plan.groups);
  return plan;
}

}  // namespace weft::scheduling_group
