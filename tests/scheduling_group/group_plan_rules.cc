// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "scheduling_group/group_plan_rules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "scheduling_group/plan_pools.h"

namespace weft::scheduling_group::plan_rules {
namespace {

using numa::Topology;

template <typename... Parts>
std::string Say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
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
      if (group->workers >= limits.least) {
        if (!FewestOfWholeDomains(pool, limits)) continue;
      } else if (KeepsSiblings(pool) && !FewestOfCores(pool, limits.Halved())) {
        continue;
      }
      return Say("a group of ", group->workers, " on node ", node, ", which has ", pool.cpus, " CPUs");
    }
  }
  return "";
}

std::string Fewest(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (pool.KindsInUse().size() > 1) continue;  // GP10 comes first.
    const std::optional<unsigned> fewest = FewestOfWholeDomains(pool, LimitsOf(wishes));
    if (fewest && Size(pool.groups) > *fewest) {
      return Say(pool.groups.size(), " groups on node ", node, " where ", *fewest, " do");
    }
  }
  return "";
}

// Where it is easy to say: in nodes with one L3 domain whose cores have the same number of workers each.
std::string FewAndEqual(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  const Limits limits = LimitsOf(wishes);
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (pool.workers_of_l3.size() != 1 || WeightsOfCores(pool).size() != 1) continue;
    if (pool.KindsInUse().size() > 1) continue;  // GP10 comes first.
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

std::string EvenDomains(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (pool.workers < pool.cpus) continue;
    std::map<std::pair<unsigned, unsigned>, std::set<unsigned>> loads;  // by the number of cores and of CPUs
    for (const auto& [l3, cores] : pool.cores_of_l3) {
      unsigned cpus = 0;
      for (int core : cores) cpus += Size(pool.cpus_of_core.at(core));
      loads[{Size(cores), cpus}].insert(pool.workers_of_l3.at(l3));
    }
    for (const auto& [kind, workers] : loads) {
      if (*workers.rbegin() <= *workers.begin() + 1) continue;
      return Say(*workers.begin(), " and ", *workers.rbegin(), " workers in equal L3 domains of node ", node);
    }
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
      if (cpus >= wished && (wished < cores + min || wished < min * (expected + 1))) break;
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
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    const unsigned straddling = StraddlingGroups(machine, pool);
    if (straddling > 0 && FewestOfWholeDomains(pool, LimitsOf(wishes).Halved())) {
      return Say(straddling, " groups of node ", node, " have a part of an L3 domain and something else");
    }
  }
  return "";
}

// Where each L3 domain has enough cores of each of its kinds.
std::string OneKind(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    if (!KeepsSiblings(pool) || !EachKindMakesGroups(pool, LimitsOf(wishes))) continue;
    for (const PlannedGroup* group : pool.groups) {
      const int first = group->worker_cpus.front();
      for (int cpu : group->worker_cpus) {
        if (machine.FindCpu(cpu)->kind == machine.FindCpu(first)->kind) continue;
        return Say("CPUs ", first, " and ", cpu, " of different kinds are in a group");
      }
    }
  }
  return "";
}

std::string FastCoresFirst(const Topology& machine, const PlanWishes& wishes, const GroupPlan& plan) {
  for (const auto& [node, pool] : Pools(machine, wishes, plan)) {
    for (const auto& [l3, cores] : pool.cores_of_l3) {
      for (int core : cores) {
        if (pool.workers_of_core.contains(core)) continue;
        for (int other : cores) {
          if (!pool.workers_of_core.contains(other) || pool.kind_of_core.at(other) >= pool.kind_of_core.at(core))
            continue;
          return Say("a slow core has a worker, CPU ", pool.cpus_of_core.at(core).front(), " on a fast one has none");
        }
      }
    }
  }
  return "";
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
      if (neighbour.same_package != have_common(packages[g], packages[o])) {
        return Say("group ", g, " is wrong about the package of ", o);
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
