// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/cpu_assignment.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

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

}  // namespace weft::scheduling_group::planning
