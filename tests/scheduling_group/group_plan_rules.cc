// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "scheduling_group/group_plan_rules.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

namespace weft::scheduling_group::plan_rules {
namespace {

using numa::Topology;

template <typename... Parts>
std::string Say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

unsigned Size(const auto& container) { return static_cast<unsigned>(container.size()); }

struct Limits {
  unsigned min;
  unsigned max;
};
Limits LimitsOf(const PlanWishes& wishes) {
  if (wishes.group_size == 0) return {8, 15};
  return {(wishes.group_size + 1) / 2, wishes.group_size};
}

unsigned WorkersWished(const Topology& machine, const PlanWishes& wishes) {
  return wishes.workers != 0 ? wishes.workers : machine.UsableCpuCount();
}

bool IgnoresNodes(const Topology& machine, const PlanWishes& wishes) {
  return wishes.numa == PlanWishes::Numa::kOff && machine.nodes.size() > 1;
}

// A node as the plan sees it (all of the machine if NUMA is off).
struct Pool {
  int node = -1;
  std::map<int, std::vector<int>> cpus_of_core{};
  std::map<int, std::set<int>> cores_of_l3{};
  unsigned cpus = 0;
  std::vector<const PlannedGroup*> groups{};
  unsigned workers = 0;
  std::map<int, unsigned> workers_of_core{};
  std::map<int, unsigned> workers_of_l3{};
};

std::map<int, Pool> Pools(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  std::map<int, Pool> pools;
  for (const Topology::Cpu& cpu : machine.cpus) {
    const int node = IgnoresNodes(machine, wishes) ? -1 : cpu.node;
    Pool& pool = pools[node];
    pool.node = node;
    pool.cpus_of_core[cpu.core].push_back(cpu.os_id);
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

// Whether items (how many of which weight) can be put together to groups of min to max without a rest.  At most two
// weights; for more it says yes only if one group would do.
bool CanBeGrouped(const std::map<unsigned, unsigned>& items, Limits limits) {
  if (items.empty()) return true;
  if (items.size() > 2) return false;
  const auto [w1, n1] = *items.begin();
  const auto [w2, n2] = items.size() == 2 ? *items.rbegin() : std::pair<const unsigned, unsigned>{1, 0};
  std::vector<std::vector<bool>> can(n1 + 1, std::vector<bool>(n2 + 1, false));
  can[0][0] = true;
  for (unsigned a = 0; a <= n1; ++a) {
    for (unsigned b = 0; b <= n2; ++b) {
      for (unsigned x = 0; x <= a && x * w1 <= limits.max && !can[a][b]; ++x) {
        for (unsigned y = 0; y <= b && x * w1 + y * w2 <= limits.max && !can[a][b]; ++y) {
          if (x + y > 0 && x * w1 + y * w2 >= limits.min && can[a - x][b - y]) can[a][b] = true;
        }
      }
    }
  }
  return can[n1][n2];
}

std::map<unsigned, unsigned> WeightsOfCores(const Pool& pool, const std::set<int>* cores = nullptr) {
  std::map<unsigned, unsigned> weights;
  for (const auto& [core, workers] : pool.workers_of_core) {
    if (cores == nullptr || cores->contains(core)) ++weights[workers];
  }
  return weights;
}

bool KeepsSiblings(const Pool& pool) { return pool.workers <= pool.cpus; }

// Without the cores that have more workers than a group may have: these can always be divided among groups of sizes
// that are allowed.
std::map<unsigned, unsigned> WeightsOfWholeCores(const Pool& pool, Limits limits,
                                                 const std::set<int>* cores = nullptr) {
  std::map<unsigned, unsigned> weights = WeightsOfCores(pool, cores);
  if (KeepsSiblings(pool)) weights.erase(weights.upper_bound(limits.max), weights.end());
  return weights;
}

// Whether whole domains can be grouped, those that are too large each on its own: exact for at most 10 domains that are
// not too large, or if those are of at most two sizes; else it says no.
bool WholeDomainsWouldDo(const Pool& pool, Limits limits) {
  std::vector<unsigned> small;
  std::map<unsigned, unsigned> weights;
  for (const auto& [l3, workers] : pool.workers_of_l3) {
    if (workers <= limits.max) {
      small.push_back(workers);
      ++weights[workers];
    } else if (!CanBeGrouped(WeightsOfWholeCores(pool, limits, &pool.cores_of_l3.at(l3)), limits)) {
      return false;
    }
  }
  if (weights.size() <= 2) return CanBeGrouped(weights, limits);
  if (small.size() > 10) return false;
  const std::size_t all = (std::size_t{1} << small.size()) - 1;
  std::vector<unsigned> sum(all + 1, 0);
  std::vector<bool> can(all + 1, false);
  can[0] = true;
  for (std::size_t set = 1; set <= all; ++set) {
    for (std::size_t i = 0; i < small.size(); ++i) {
      if ((set >> i & 1) != 0) sum[set] += small[i];
    }
    for (std::size_t part = set; part != 0 && !can[set]; part = (part - 1) & set) {
      can[set] = sum[part] >= limits.min && sum[part] <= limits.max && can[set & ~part];
    }
  }
  return can[all];
}

// Groups with a part of a domain and something else.
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

}  // namespace

std::string Sizes(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const Limits limits = LimitsOf(wishes);
  const auto pools = Pools(machine, wishes, plan);
  const auto nodes_used = static_cast<unsigned>(
      std::count_if(pools.begin(), pools.end(), [](const auto& pool) { return !pool.second.groups.empty(); }));
  if (plan.groups.empty()) return "no group";
  for (const auto& [node, pool] : pools) {
    for (const PlannedGroup* group : pool.groups) {
      if (group->workers > limits.max) return Say("a group of ", group->workers, ", at most ", limits.max, " allowed");
      if (group->workers == 0) return "a group without workers";
      if (group->workers != group->worker_cpus.size()) return Say("planned CPUs for ", group->worker_cpus.size());
      if (group->workers >= limits.min || pool.cpus < limits.min) continue;
      if (WorkersWished(machine, wishes) < limits.min * nodes_used) continue;
      if (KeepsSiblings(pool) && !CanBeGrouped(WeightsOfWholeCores(pool, limits), limits)) continue;
      return Say("a group of ", group->workers, " on node ", node, ", which has ", pool.cpus, " CPUs");
    }
  }
  return "";
}

// Where it is easy to say: in nodes with one L3 domain whose cores have the same number of workers each.
std::string FewAndEqual(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const Limits limits = LimitsOf(wishes);
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (pool.workers_of_l3.size() != 1 || WeightsOfCores(pool).size() != 1) continue;
    const unsigned on_core = WeightsOfCores(pool).begin()->first;
    const bool divided = KeepsSiblings(pool) && on_core > limits.max;  // The cores, each among groups of its own.
    const unsigned weight = KeepsSiblings(pool) && !divided ? on_core : 1;
    const unsigned per_group = limits.max / weight;
    const unsigned items = divided ? on_core : pool.workers / weight;
    const unsigned parts = divided ? Size(pool.workers_of_core) : 1;
    const unsigned fewest = parts * ((items + per_group - 1) / per_group);
    if (Size(pool.groups) != fewest) return Say(pool.groups.size(), " groups on node ", node, " where ", fewest, " do");
    const auto [least, most] = std::minmax_element(pool.groups.begin(), pool.groups.end(),
                                                   [](auto* a, auto* b) { return a->workers < b->workers; });
    if ((*most)->workers - (*least)->workers > weight) {
      return Say("groups of ", (*least)->workers, " and ", (*most)->workers, " on node ", node);
    }
  }
  return "";
}

std::string WithinNodes(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlannedGroup& group = plan.groups[g];
    if (IgnoresNodes(machine, wishes)) {
      if (group.node != -1) return Say("group ", g, " is bound to node ", group.node, " though NUMA is off");
      continue;
    }
    if (machine.FindNode(group.node) == nullptr) return Say("group ", g, " is on node ", group.node, ", not there");
    for (const auto* list : {&group.worker_cpus, &group.cpus}) {
      for (int id : *list) {
        const Topology::Cpu* cpu = machine.FindCpu(id);
        if (cpu == nullptr) return Say("group ", g, " uses CPU ", id, ", which is not ours");
        if (cpu->node != group.node) {
          return Say("group ", g, " of node ", group.node, " uses CPU ", id, " of node ", cpu->node);
        }
      }
    }
  }
  return "";
}

std::string NothingLeftOver(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  std::map<int, unsigned> load;
  for (const Topology::Cpu& cpu : machine.cpus) load[cpu.os_id] = 0;
  unsigned planned = 0;
  for (const PlannedGroup& group : plan.groups) {
    for (int cpu : group.worker_cpus) {
      if (!load.contains(cpu)) return Say("a worker on CPU ", cpu, ", which is not ours");
      ++load[cpu];
      ++planned;
    }
  }
  const unsigned wished = WorkersWished(machine, wishes);
  if (planned != wished || plan.WorkerCount() != wished) {
    return Say(planned, " planned CPUs and ", plan.WorkerCount(), " workers where ", wished, " are wished for");
  }
  const auto [least, most] =
      std::minmax_element(load.begin(), load.end(), [](auto& a, auto& b) { return a.second < b.second; });
  if (wished >= machine.cpus.size() && least->second == 0) return Say("CPU ", least->first, " has no worker");
  if (most->second > least->second + 1) {
    return Say("CPU ", most->first, " has ", most->second, " workers, CPU ", least->first, " has ", least->second);
  }
  return "";
}

std::string FewTogether(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const unsigned wished = WorkersWished(machine, wishes);
  const unsigned min = LimitsOf(wishes).min;
  const auto pools = Pools(machine, wishes, plan);
  std::vector<std::pair<unsigned, unsigned>> nodes;  // cores, CPUs
  unsigned used = 0;
  for (const auto& [node, pool] : pools) {
    nodes.emplace_back(Size(pool.cpus_of_core), pool.cpus);
    used += pool.groups.empty() ? 0 : 1;
  }
  unsigned expected = Size(nodes);
  if (wishes.numa == PlanWishes::Numa::kAuto) {
    std::sort(nodes.rbegin(), nodes.rend());
    unsigned cores = 0;
    unsigned cpus = 0;
    for (expected = 0; expected < nodes.size();) {
      cores += nodes[expected].first;
      cpus += nodes[expected].second;
      ++expected;
      if (cpus >= wished && (cores >= wished || wished < min * (expected + 1))) break;
    }
    if (used != expected) return Say(used, " nodes for ", wished, " workers, ", expected, " do");
  } else if (wished >= machine.cpus.size() && used != expected) {
    return Say(used, " nodes of ", expected, " are used");
  }
  for (const auto& [node, pool] : pools) {
    if (pool.workers >= pool.cpus_of_core.size()) continue;  // All domains have workers anyway (GP5).
    std::vector<unsigned> domains;
    for (const auto& [l3, cores] : pool.cores_of_l3) domains.push_back(Size(cores));
    std::sort(domains.rbegin(), domains.rend());
    unsigned fewest = 0;
    for (unsigned room = 0; room < pool.workers; ++fewest) room += domains[fewest];
    if (Size(pool.workers_of_l3) != fewest) {
      return Say(pool.workers, " workers of node ", node, " in ", pool.workers_of_l3.size(), " L3 domains, ", fewest,
                 " do");
    }
  }
  return "";
}

std::string CoresFirst(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const auto pools = Pools(machine, wishes, plan);
  for (const auto& [node, pool] : pools) {
    const bool shared = std::any_of(pool.workers_of_core.begin(), pool.workers_of_core.end(),
                                    [](const auto& core) { return core.second > 1; });
    if (!shared) continue;
    for (const auto& [other, there] : pools) {
      if (there.groups.empty() || there.workers_of_core.size() == there.cpus_of_core.size()) continue;
      if (other != node && pool.workers <= LimitsOf(wishes).min) continue;
      return Say("workers share a core of node ", node, ", others of node ", other, " have none");
    }
  }
  return "";
}

std::string Siblings(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const unsigned max = LimitsOf(wishes).max;
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (!KeepsSiblings(pool)) continue;
    std::map<int, const PlannedGroup*> group_of_core;
    for (const PlannedGroup* group : pool.groups) {
      for (int cpu : group->worker_cpus) {
        const int core = machine.FindCpu(cpu)->core;
        if (pool.workers_of_core.at(core) > max) {
          const auto stranger = std::find_if(group->worker_cpus.begin(), group->worker_cpus.end(),
                                             [&](int other) { return machine.FindCpu(other)->core != core; });
          if (stranger == group->worker_cpus.end()) continue;
          return Say("CPU ", cpu, " of a divided core is in a group with CPU ", *stranger, " of another");
        }
        if (group_of_core.try_emplace(core, group).first->second != group) {
          return Say("CPU ", cpu, " and its sibling are in different groups");
        }
      }
    }
  }
  return "";
}

std::string WholeL3Domains(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const Limits limits = LimitsOf(wishes);
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    std::set<std::map<unsigned, unsigned>> kinds;
    for (const auto& [l3, cores] : pool.cores_of_l3) {
      if (pool.workers_of_l3.contains(l3)) kinds.insert(WeightsOfCores(pool, &cores));
    }
    const bool equal = kinds.size() == 1 && kinds.begin()->size() == 1;
    if (equal && StraddlingGroups(machine, pool) > 0 && WholeDomainsWouldDo(pool, limits)) {
      return Say(StraddlingGroups(machine, pool), " groups of node ", node,
                 " have a part of an L3 domain and something else");
    }
  }
  return "";
}

bool StraddlesInVain(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const auto pools = Pools(machine, wishes, plan);
  return std::any_of(pools.begin(), pools.end(), [&](const auto& pool) {
    return StraddlingGroups(machine, pool.second) > 0 && WholeDomainsWouldDo(pool.second, LimitsOf(wishes));
  });
}

std::string PlannedCpus(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    std::map<int, std::set<const PlannedGroup*>> planned_by;
    std::map<int, std::set<const PlannedGroup*>> on_core;
    for (const PlannedGroup* group : pool.groups) {
      for (int cpu : group->worker_cpus) {
        planned_by[cpu].insert(group);
        on_core[machine.FindCpu(cpu)->core].insert(group);
      }
    }
    for (const PlannedGroup* group : pool.groups) {
      const std::string who = Say("the group with CPU ", group->worker_cpus.front());
      if (std::adjacent_find(group->cpus.begin(), group->cpus.end(), std::greater_equal<>()) != group->cpus.end()) {
        return who + ": its CPUs are not sorted";
      }
      std::set<int> l3s;
      std::map<int, unsigned> before;  // workers with lower numbers on the same core
      unsigned turn = 0;
      for (int id : group->worker_cpus) {
        const Topology::Cpu* cpu = machine.FindCpu(id);
        l3s.insert(cpu->l3);
        if (before[cpu->core]++ < turn) return Say(who, ": its worker on CPU ", id, " comes too late");
        turn = std::max(turn, before[cpu->core] - 1);
      }
      for (const auto& [core, cpus] : pool.cpus_of_core) {
        const auto& beside = on_core[core];
        for (int cpu : cpus) {
          const auto& planned = planned_by[cpu];
          const bool expected = !planned.empty()  ? planned.contains(group)
                                : !beside.empty() ? beside.contains(group)
                                                  : l3s.contains(machine.FindCpu(cpu)->l3);
          const bool allowed = std::binary_search(group->cpus.begin(), group->cpus.end(), cpu);
          if (expected && !allowed) return Say(who, " may not use CPU ", cpu);
          if (!expected && allowed) return Say(who, " may use CPU ", cpu);
        }
      }
      if (pool.workers <= pool.cpus) {
        for (int cpu : group->worker_cpus) {
          if (planned_by[cpu].size() > 1) return Say("CPU ", cpu, " is planned twice");
        }
      }
    }
  }
  return "";
}

std::string NearestFirst(const Topology& machine, const PlanWishes& /*wishes*/, const GroupPlan& plan) {
  std::vector<std::set<int>> l3s;
  std::vector<std::set<int>> packages;
  for (const PlannedGroup& group : plan.groups) {
    l3s.emplace_back();
    packages.emplace_back();
    for (int cpu : group.worker_cpus) {
      l3s.back().insert(machine.FindCpu(cpu)->l3);
      packages.back().insert(machine.FindCpu(cpu)->package);
    }
  }
  const auto have_common = [](const std::set<int>& a, const std::set<int>& b) {
    return std::any_of(a.begin(), a.end(), [&](int item) { return b.contains(item); });
  };
  for (std::size_t g = 0; g < plan.groups.size(); ++g) {
    const PlannedGroup& group = plan.groups[g];
    std::vector<bool> seen(plan.groups.size(), false);
    seen[g] = true;
    std::tuple<bool, int, bool, bool> last{};
    for (const auto& neighbour : group.neighbours) {
      const auto o = static_cast<std::size_t>(neighbour.group);
      if (seen.at(o)) return Say("group ", g, " has neighbour ", o, " twice");
      seen[o] = true;
      const PlannedGroup& other = plan.groups[o];
      const int distance = group.node == other.node ? 10 : machine.Distance(group.node, other.node);
      if (neighbour.same_node != (group.node == other.node) || neighbour.distance != distance) {
        return Say("group ", g, " is wrong about its distance to ", o);
      }
      const bool other_l3 = neighbour.same_node && !have_common(l3s[g], l3s[o]);
      const std::tuple now(!neighbour.same_node, distance, other_l3, !have_common(packages[g], packages[o]));
      if (now < last) return Say("group ", g, ": ", o, " is nearer than those before it");
      last = now;
    }
    if (std::find(seen.begin(), seen.end(), false) != seen.end()) return Say("group ", g, " does not know all others");
  }
  return "";
}

// On machines where all groups are in the same position: all nodes equally far, with equal numbers of groups in each
// package, node and L3 domain.
std::string NotAllTheFirst(const Topology& machine, const PlanWishes& /*wishes*/, const GroupPlan& plan) {
  std::map<int, unsigned> groups_of_node;
  std::map<std::pair<int, int>, unsigned> groups_of_l3;
  std::map<int, unsigned> groups_of_package;
  std::set<int> distances;
  for (const PlannedGroup& group : plan.groups) {
    ++groups_of_package[machine.FindCpu(group.worker_cpus.front())->package];
    const int l3 = machine.FindCpu(group.worker_cpus.front())->l3;
    for (int cpu : group.worker_cpus) {
      if (machine.FindCpu(cpu)->l3 != l3) return "";
    }
    ++groups_of_node[group.node];
    ++groups_of_l3[{group.node, l3}];
    for (const auto& neighbour : group.neighbours) {
      if (!neighbour.same_node) distances.insert(neighbour.distance);
    }
  }
  const auto uneven = [](const auto& counts) {
    return std::any_of(counts.begin(), counts.end(),
                       [&](const auto& count) { return count.second != counts.begin()->second; });
  };
  if (distances.size() > 1 || uneven(groups_of_node) || uneven(groups_of_l3) || uneven(groups_of_package)) return "";
  std::map<int, unsigned> first;         // how often a group is the first of all
  std::map<int, unsigned> first_across;  // and the first of another node
  for (const PlannedGroup& group : plan.groups) {
    if (!group.neighbours.empty()) ++first[group.neighbours.front().group];
    const auto across = std::find_if(group.neighbours.begin(), group.neighbours.end(),
                                     [](const auto& neighbour) { return !neighbour.same_node; });
    if (across != group.neighbours.end()) ++first_across[across->group];
  }
  for (const auto* counts : {&first, &first_across}) {
    for (const auto& [group, times] : *counts) {
      if (times > 1) return Say(times, " groups steal from group ", group, " first");
    }
  }
  return "";
}

}  // namespace weft::scheduling_group::plan_rules
