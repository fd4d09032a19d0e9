// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/cpu_assignment.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <tuple>

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
  std::map<int, const Core*> core_of_cpu;
  for (const Core& core : pool.cores) {
    for (int cpu : core.cpus) core_of_cpu[cpu] = &core;
  }
  std::set<int> planned;
  std::map<int, std::set<PlannedGroup*>> groups_of_core;
  std::map<int, std::set<PlannedGroup*>> groups_of_l3;
  for (PlannedGroup& group : *groups) {
    planned.insert(group.worker_cpus.begin(), group.worker_cpus.end());
    for (int cpu : group.worker_cpus) {
      groups_of_core[core_of_cpu[cpu]->number].insert(&group);
      groups_of_l3[core_of_cpu[cpu]->l3].insert(&group);
    }
  }
  for (const auto& [cpu, core] : core_of_cpu) {
    if (planned.contains(cpu)) continue;
    const auto beside = groups_of_core.find(core->number);
    for (PlannedGroup* group : beside != groups_of_core.end() ? beside->second : groups_of_l3[core->l3]) {
      group->cpus.push_back(cpu);
    }
  }
  for (PlannedGroup& group : *groups) {
    std::sort(group.cpus.begin(), group.cpus.end());
    group.cpus.erase(std::unique(group.cpus.begin(), group.cpus.end()), group.cpus.end());
  }
}

}  // namespace

std::vector<PlannedGroup> AssignCpus(const CpuPool& pool, const std::vector<Row>& groups) {
  std::vector<PlannedGroup> made;
  made.reserve(groups.size());
  for (const Row& items : groups) made.push_back(MakeGroup(pool.node, items));
  AddSpareCpus(pool, &made);
  std::stable_sort(made.begin(), made.end(), [](const PlannedGroup& a, const PlannedGroup& b) {
    return *std::min_element(a.worker_cpus.begin(), a.worker_cpus.end()) <
           *std::min_element(b.worker_cpus.begin(), b.worker_cpus.end());
  });
  return made;
}

}  // namespace weft::scheduling_group::planning
