// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/group_plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "weft/numa/machine/cpu_list.h"
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
    out << "group " << g << (group.name.empty() ? "" : " (" + group.name + ")") << ": " << group.workers
        << (group.workers == 1 ? " worker" : " workers");
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

namespace weft::scheduling_group::planning {
namespace {

PlannedGroup MakeGroup(int node, const Row& items) {
  // The first worker of each core comes first.
  std::vector<std::tuple<unsigned, std::size_t, int>> seats;  // workers before it on its core, place in the row, CPU
  std::map<const Core*, unsigned> on_core;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Core& core = *items[i].core;
    for (unsigned w = 0; w < items[i].workers; ++w) {
      seats.emplace_back(on_core[&core]++, i, core.cpus[(items[i].first_worker + w) % core.cpus.size()]);
    }
  }
  std::sort(seats.begin(), seats.end());
  PlannedGroup group;
  group.node = node;
  group.workers = static_cast<unsigned>(seats.size());
  for (const auto& [turn, place, cpu] : seats) group.worker_cpus.push_back(cpu);
  group.cpus = group.worker_cpus;
  return group;
}

// GP8: adds the CPUs without a worker to the groups on the same core, else to those in the same L3 domain.
void AddSpareCpus(const CpuPool& pool, std::vector<PlannedGroup>* groups) {
  std::vector<const Core*> core_of_cpu;  // by os id; nullptr: no CPU of the pool
  for (const Core& core : pool.cores) {
    for (const int cpu : core.cpus) {
      const auto index = static_cast<std::size_t>(cpu);
      if (index >= core_of_cpu.size()) core_of_cpu.resize(index + 1);
      core_of_cpu[index] = &core;
    }
  }
  const auto core_of = [&](int cpu) { return core_of_cpu[static_cast<std::size_t>(cpu)]; };
  std::vector<bool> planned(core_of_cpu.size());
  for (const PlannedGroup& group : *groups) {
    for (const int cpu : group.worker_cpus) planned[static_cast<std::size_t>(cpu)] = true;
  }
  for (std::size_t index = 0; index < core_of_cpu.size(); ++index) {
    if (core_of_cpu[index] == nullptr || planned[index]) continue;
    const Core& spare = *core_of_cpu[index];
    const auto add_where = [&](auto is_near) {
      bool added = false;
      for (PlannedGroup& group : *groups) {
        if (std::none_of(group.worker_cpus.begin(), group.worker_cpus.end(), is_near)) continue;
        group.cpus.push_back(static_cast<int>(index));
        added = true;
      }
      return added;
    };
    if (add_where([&](int cpu) { return core_of(cpu)->number == spare.number; })) continue;
    add_where([&](int cpu) { return core_of(cpu)->l3 == spare.l3; });
  }
  for (PlannedGroup& group : *groups) {
    std::sort(group.cpus.begin(), group.cpus.end());
    group.cpus.erase(std::unique(group.cpus.begin(), group.cpus.end()), group.cpus.end());
  }
}

// Where a group is on the machine.
struct Place {
  std::set<int> l3s;
  std::set<int> packages;
  // Ordinals, of worker 0:
  int node = 0;      // among the nodes that have groups
  int l3 = 0;        // among the L3 domains of the node
  int position = 0;  // among the groups in the L3 domain
};

bool HaveCommon(const std::set<int>& a, const std::set<int>& b) {
  return std::any_of(a.begin(), a.end(), [&](int item) { return b.contains(item); });
}

class Places {
 public:
  Places(const numa::Topology& topology, const std::vector<PlannedGroup>& groups) {
    std::map<int, int> nodes;
    std::map<int, std::map<int, int>> l3s;
    for (const PlannedGroup& group : groups) {
      const numa::Topology::Cpu& cpu = *topology.FindCpu(group.worker_cpus.front());
      Place place;
      for (int id : group.worker_cpus) {
        const numa::Topology::Cpu& other = *topology.FindCpu(id);
        place.l3s.insert(other.l3);
        place.packages.insert(other.package);
      }
      place.node = nodes.try_emplace(group.node, static_cast<int>(nodes.size())).first->second;
      auto& l3s_here = l3s[place.node];
      place.l3 = l3s_here.try_emplace(cpu.l3, static_cast<int>(l3s_here.size())).first->second;
      place.position = groups_[{place.node, place.l3}]++;
      places_.push_back(std::move(place));
    }
    nodes_ = static_cast<int>(nodes.size());
    for (const auto& [node, l3s_here] : l3s) l3s_[node] = static_cast<int>(l3s_here.size());
  }

  // Smaller is nearer; equal for groups that are equally near.
  std::tuple<bool, bool> Nearness(std::size_t from, std::size_t to) const {
    return {!HaveCommon(places_[from].l3s, places_[to].l3s), !SamePackage(from, to)};
  }
  bool SamePackage(std::size_t a, std::size_t b) const { return HaveCommon(places_[a].packages, places_[b].packages); }

  // Orders equally near groups: the next node or L3 domain first, and there the group at our own position or after it.
  std::tuple<int, int, int> Turn(std::size_t from, std::size_t to) const {
    const Place& a = places_[from];
    const Place& b = places_[to];
    const auto steps = [](int x, int y, int ring) { return ((y - x) % ring + ring) % ring; };
    return {steps(a.node, b.node, nodes_), steps(a.l3, b.l3, l3s_.at(b.node)),
            steps(a.position, b.position, groups_.at({b.node, b.l3}))};
  }

 private:
  std::vector<Place> places_;
  int nodes_ = 0;
  std::map<int, int> l3s_;                     // how many in a node
  std::map<std::pair<int, int>, int> groups_;  // how many in an L3 domain of a node
};

}  // namespace

std::vector<PlannedGroup> AssignCpus(const CpuPool& pool, const std::vector<Row>& groups) {
  std::vector<PlannedGroup> made;
  made.reserve(groups.size());
  for (const Row& items : groups) made.push_back(MakeGroup(pool.node, items));
  AddSpareCpus(pool, &made);
  std::vector<std::pair<int, std::size_t>> order;  // the lowest planned CPU, and which group
  for (std::size_t g = 0; g < made.size(); ++g) {
    order.emplace_back(*std::min_element(made[g].worker_cpus.begin(), made[g].worker_cpus.end()), g);
  }
  std::sort(order.begin(), order.end());
  std::vector<PlannedGroup> sorted;
  sorted.reserve(made.size());
  for (const auto& [cpu, g] : order) sorted.push_back(std::move(made[g]));
  return sorted;
}

void OrderNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups) {
  const Places places(topology, *groups);
  for (std::size_t g = 0; g < groups->size(); ++g) {
    PlannedGroup& group = (*groups)[g];
    using Key = std::tuple<int, std::tuple<bool, bool>, std::tuple<int, int, int>>;
    std::vector<std::pair<Key, PlannedGroup::Neighbour>> order;
    for (std::size_t o = 0; o < groups->size(); ++o) {
      if (o == g) continue;
      const int node = (*groups)[o].node;
      const bool same_node = group.node == node;
      const int distance = same_node ? numa::kLocalDistance : topology.Distance(group.node, node);
      order.emplace_back(Key(same_node ? 0 : distance, places.Nearness(g, o), places.Turn(g, o)),
                         PlannedGroup::Neighbour{static_cast<int>(o), same_node, distance, places.SamePackage(g, o)});
    }
    std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
      return std::tie(a.first, a.second.group) < std::tie(b.first, b.second.group);
    });
    for (const auto& [key, neighbour] : order) group.neighbours.push_back(neighbour);
  }
}

}  // namespace weft::scheduling_group::planning
