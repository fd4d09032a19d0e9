// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "scheduling_group/plan_pools.h"

#include <algorithm>
#include <utility>

namespace weft::scheduling_group::plan_rules {
namespace {

using numa::Topology;
using Counts = std::map<unsigned, unsigned>;  // how many of which weight

std::optional<unsigned> Fewer(std::optional<unsigned> a, std::optional<unsigned> b) {
  if (!a || !b) return a ? a : b;
  return std::min(*a, *b);
}

std::optional<unsigned> Sum(std::optional<unsigned> a, std::optional<unsigned> b) {
  if (!a || !b) return std::nullopt;
  return *a + *b;
}

// Of items of at most two weights, without a rest.
std::optional<unsigned> FewestGroups(const Counts& items, Limits limits) {
  if (items.empty()) return 0;
  if (items.size() > 2) return std::nullopt;
  const auto [w1, n1] = *items.begin();
  const auto [w2, n2] = items.size() == 2 ? *items.rbegin() : std::pair<const unsigned, unsigned>{1, 0};
  std::vector<std::vector<std::optional<unsigned>>> fewest(n1 + 1, std::vector<std::optional<unsigned>>(n2 + 1));
  fewest[0][0] = 0;
  for (unsigned a = 0; a <= n1; ++a) {
    for (unsigned b = 0; b <= n2; ++b) {
      for (unsigned x = 0; x <= a && x * w1 <= limits.max; ++x) {
        for (unsigned y = 0; y <= b && x * w1 + y * w2 <= limits.max; ++y) {
          if (x + y == 0 || x * w1 + y * w2 < limits.min) continue;
          fewest[a][b] = Fewer(fewest[a][b], Sum(fewest[a - x][b - y], 1));
        }
      }
    }
  }
  return fewest[n1][n2];
}

// Of at most 10 items.
std::optional<unsigned> FewestGroups(const std::vector<unsigned>& items, Limits limits) {
  if (items.size() > 10) return std::nullopt;
  const std::size_t all = (std::size_t{1} << items.size()) - 1;
  std::vector<unsigned> sum(all + 1, 0);
  std::vector<std::optional<unsigned>> fewest(all + 1);
  fewest[0] = 0;
  for (std::size_t set = 1; set <= all; ++set) {
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((set >> i & 1) != 0) sum[set] += items[i];
    }
    for (std::size_t part = set; part != 0; part = (part - 1) & set) {
      if (sum[part] < limits.min || sum[part] > limits.max) continue;
      fewest[set] = Fewer(fewest[set], Sum(fewest[set & ~part], 1));
    }
  }
  return fewest[all];
}

// A core that has more workers than a group may have is divided by itself, into groups that may be smaller (GP6).
std::optional<unsigned> FewestOf(Counts weights, bool keeps_siblings, Limits limits) {
  std::optional<unsigned> groups = 0;
  if (keeps_siblings) {
    for (auto core = weights.upper_bound(limits.max); core != weights.end(); core = weights.erase(core)) {
      groups = Sum(groups, core->second * ((core->first + limits.max - 1) / limits.max));
    }
  }
  return Sum(groups, FewestGroups(weights, limits));
}

}  // namespace

Limits LimitsOf(const PlanWishes& wishes) {
  if (wishes.group_size == 0) return {4, 8, 15};
  const unsigned half = (wishes.group_size + 1) / 2;
  return {(half + 1) / 2, half, wishes.group_size};
}

unsigned WorkersWished(const Topology& machine, const PlanWishes& wishes) {
  return wishes.workers != 0 ? wishes.workers : machine.UsableCpuCount();
}

bool IgnoresNodes(const Topology& machine, const PlanWishes& wishes) {
  return wishes.numa == PlanWishes::Numa::kOff && machine.nodes.size() > 1;
}

std::set<int> Pool::KindsInUse() const {
  std::set<int> kinds;
  for (const auto& [core, count] : workers_of_core) kinds.insert(kind_of_core.at(core));
  return kinds;
}

std::map<int, Pool> Pools(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  std::map<int, Pool> pools;
  for (const Topology::Cpu& cpu : machine.cpus) {
    const int node = IgnoresNodes(machine, wishes) ? -1 : cpu.node;
    Pool& pool = pools[node];
    pool.node = node;
    pool.cpus_of_core[cpu.core].push_back(cpu.os_id);
    pool.kind_of_core[cpu.core] = cpu.kind;
    pool.cores_of_l3[cpu.l3].insert(cpu.core);
    ++pool.cpus;
  }
  for (const PlannedGroup& group : plan.groups) {
    Pool& pool = pools[group.node];
    pool.groups.push_back(&group);
    for (int id : group.worker_cpus) {
      const Topology::Cpu* cpu = machine.FindCpu(id);
      if (cpu == nullptr) continue;
      ++pool.workers;
      ++pool.workers_of_core[cpu->core];
      ++pool.workers_of_l3[cpu->l3];
    }
  }
  return pools;
}

bool KeepsSiblings(const Pool& pool) { return pool.workers <= pool.cpus; }

std::map<unsigned, unsigned> WeightsOfCores(const Pool& pool, const std::set<int>* cores) {
  Counts weights;
  for (const auto& [core, workers] : pool.workers_of_core) {
    if (cores == nullptr || cores->contains(core)) ++weights[workers];
  }
  return weights;
}

std::optional<unsigned> FewestOfCores(const Pool& pool, Limits limits) {
  return FewestOf(WeightsOfCores(pool), KeepsSiblings(pool), limits);
}

std::optional<unsigned> FewestOfWholeDomains(const Pool& pool, Limits limits) {
  std::vector<unsigned> small;
  Counts weights;
  std::optional<unsigned> groups = 0;
  for (const auto& [l3, workers] : pool.workers_of_l3) {
    if (workers <= limits.max) {
      small.push_back(workers);
      ++weights[workers];
      continue;
    }
    Counts cores = WeightsOfCores(pool, &pool.cores_of_l3.at(l3));
    if (!KeepsSiblings(pool)) cores = {{1, workers}};
    groups = Sum(groups, FewestOf(cores, KeepsSiblings(pool), limits));
  }
  return Sum(groups, weights.size() <= 2 ? FewestGroups(weights, limits) : FewestGroups(small, limits));
}

bool EachKindMakesGroups(const Pool& pool, Limits limits) {
  for (const auto& [l3, cores] : pool.cores_of_l3) {
    std::map<int, std::set<int>> by_kind;
    for (int core : cores) by_kind[pool.kind_of_core.at(core)].insert(core);
    for (const auto& [kind, members] : by_kind) {
      if (!FewestOf(WeightsOfCores(pool, &members), KeepsSiblings(pool), limits)) return false;
    }
  }
  return true;
}

unsigned StraddlingGroups(const Topology& machine, const Pool& pool) {
  unsigned count = 0;
  for (const PlannedGroup* group : pool.groups) {
    std::map<int, unsigned> here;
    for (int cpu : group->worker_cpus) ++here[machine.FindCpu(cpu)->l3];
    const bool part = std::any_of(here.begin(), here.end(), [&](const auto& domain) {
      return domain.second != pool.workers_of_l3.at(domain.first);
    });
    if (part && here.size() > 1) ++count;
  }
  return count;
}

}  // namespace weft::scheduling_group::plan_rules
