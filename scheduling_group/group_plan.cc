// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group_plan.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <tuple>

namespace weft::scheduling_group {
namespace {

constexpr unsigned kMinSize = 8;
constexpr unsigned kMaxSize = 15;
constexpr unsigned kMaxExplicitSize = 64;

unsigned CeilDiv(unsigned a, unsigned b) { return (a + b - 1) / b; }

// CPUs that one group may not mix with others: a node, or everything if NUMA is off.
struct Pool {
  int node = -1;
  std::vector<numa::Topology::Cpu> cpus;  // in the order in which they are dealt out
  unsigned workers = 0;
};

// `total` split over the pools by their number of CPUs, the remainder to the largest fractions.
void ShareWorkers(std::vector<Pool>* pools, unsigned total) {
  unsigned cpus = 0;
  for (const Pool& pool : *pools) cpus += static_cast<unsigned>(pool.cpus.size());
  std::vector<std::pair<unsigned, std::size_t>> remainders;
  unsigned given = 0;
  for (std::size_t i = 0; i < pools->size(); ++i) {
    Pool& pool = (*pools)[i];
    const unsigned share = total * static_cast<unsigned>(pool.cpus.size());
    pool.workers = share / cpus;
    given += pool.workers;
    remainders.emplace_back(share % cpus, i);
  }
  std::stable_sort(remainders.begin(), remainders.end(), [](auto& a, auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; given < total; ++i, ++given) ++(*pools)[remainders[i % remainders.size()].second].workers;
}

unsigned GroupCountFor(unsigned workers, unsigned wished_size) {
  if (wished_size != 0) return CeilDiv(workers, wished_size);
  return CeilDiv(workers, kMaxSize);  // As few groups as can be, of equal size: 16 -> 8+8, 64 -> 13,13,13,13,12.
}

void PlanPool(const Pool& pool, unsigned wished_size, std::vector<PlannedGroup>* groups) {
  const unsigned count = GroupCountFor(pool.workers, wished_size);
  const auto cpus = static_cast<unsigned>(pool.cpus.size());
  for (unsigned g = 0; g < count; ++g) {
    PlannedGroup group;
    group.node = pool.node;
    group.workers = pool.workers / count + (g < pool.workers % count ? 1 : 0);
    // Its slice of the CPUs; several groups share CPUs if there are more groups than CPUs.
    const unsigned first = g * cpus / count;
    const unsigned last = std::max(first + 1, (g + 1) * cpus / count);
    for (unsigned c = first; c < last; ++c) group.cpus.push_back(pool.cpus[c].os_id);
    std::sort(group.cpus.begin(), group.cpus.end());
    groups->push_back(std::move(group));
  }
}

void FindNeighbours(const numa::Topology& topology, std::vector<PlannedGroup>* groups) {
  const int count = static_cast<int>(groups->size());
  for (int g = 0; g < count; ++g) {
    PlannedGroup& group = (*groups)[static_cast<std::size_t>(g)];
    std::vector<std::tuple<int, int>> order;  // distance, steps behind g
    for (int step = 1; step < count; ++step) {
      const PlannedGroup& other = (*groups)[static_cast<std::size_t>((g + step) % count)];
      const int distance =
          group.node < 0 || other.node < 0 || group.node == other.node ? 0 : topology.Distance(group.node, other.node);
      order.emplace_back(distance, step);
    }
    std::sort(order.begin(), order.end());
    for (auto [distance, step] : order) {
      group.neighbours.push_back({.group = (g + step) % count, .same_node = distance == 0});
    }
  }
}

}  // namespace

unsigned GroupPlan::WorkerCount() const {
  return std::accumulate(groups.begin(), groups.end(), 0U, [](unsigned sum, auto& g) { return sum + g.workers; });
}

std::string GroupPlan::ToString() const {
  std::ostringstream out;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    out << "group " << g << ": " << groups[g].workers << " workers";
    if (groups[g].node >= 0) out << ", node " << groups[g].node;
    out << ", CPUs";
    for (int cpu : groups[g].cpus) out << ' ' << cpu;
    out << ", steals from";
    for (const auto& n : groups[g].neighbours) out << ' ' << n.group << (n.same_node ? "" : "*");
    out << '\n';
  }
  return out.str();
}

std::optional<GroupPlan> PlanGroups(const numa::Topology& topology, const PlanWishes& wishes, std::string* error) {
  if (topology.cpus.empty()) {
    *error = "no CPU to plan for";
    return std::nullopt;
  }
  if (wishes.group_size > kMaxExplicitSize) {
    *error = "group size " + std::to_string(wishes.group_size) + " is not in 0.." + std::to_string(kMaxExplicitSize);
    return std::nullopt;
  }
  const unsigned workers = wishes.workers != 0 ? wishes.workers : topology.UsableCpuCount();

  using Numa = PlanWishes::Numa;
  const bool several_nodes = topology.nodes.size() > 1;
  // Automatically only if each node gets a group worth the name.
  const bool by_node = several_nodes && (wishes.numa == Numa::kOn ||
                                         (wishes.numa == Numa::kAuto && workers >= kMinSize * topology.nodes.size()));
  std::vector<Pool> pools;
  if (by_node) {
    for (const auto& node : topology.nodes) pools.push_back({.node = node.os_id, .cpus = {}, .workers = 0});
  } else {
    pools.push_back({.node = several_nodes            ? -1
                             : topology.nodes.empty() ? -1
                                                      : topology.nodes.front().os_id,
                     .cpus = {},
                     .workers = 0});
  }
  for (const auto& cpu : topology.cpus) {
    for (Pool& pool : pools) {
      if (!by_node || pool.node == cpu.node) pool.cpus.push_back(cpu);
    }
  }
  std::erase_if(pools, [](const Pool& pool) { return pool.cpus.empty(); });
  for (Pool& pool : pools) {
    std::sort(pool.cpus.begin(), pool.cpus.end(), [](const auto& a, const auto& b) {
      return std::tie(a.node, a.l3, a.smt, a.core, a.os_id) < std::tie(b.node, b.l3, b.smt, b.core, b.os_id);
    });
  }
  ShareWorkers(&pools, workers);
  GroupPlan plan;
  for (const Pool& pool : pools) {
    if (pool.workers != 0) PlanPool(pool, wishes.group_size, &plan.groups);
  }
  FindNeighbours(topology, &plan.groups);
  return plan;
}

}  // namespace weft::scheduling_group
