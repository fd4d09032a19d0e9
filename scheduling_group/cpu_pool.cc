// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/cpu_pool.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

#include "weft/scheduling_group/apportion.h"

namespace weft::scheduling_group::planning {
namespace {

unsigned CoreCount(const CpuPool& pool) { return static_cast<unsigned>(pool.cores.size()); }

bool HasCpu(const CpuPool& pool, int cpu) {
  return std::any_of(pool.cores.begin(), pool.cores.end(), [&](const Core& core) {
    return std::find(core.cpus.begin(), core.cpus.end(), cpu) != core.cpus.end();
  });
}

}  // namespace

std::vector<CpuPool> MakePools(const numa::Topology& topology, bool numa_off) {
  std::map<int, std::map<int, Core>> cores_of_node;
  std::vector<numa::Topology::Cpu> cpus = topology.cpus;
  std::sort(cpus.begin(), cpus.end(),
            [](const auto& a, const auto& b) { return std::tie(a.smt, a.os_id) < std::tie(b.smt, b.os_id); });
  for (const auto& cpu : cpus) {
    Core& core = cores_of_node[numa_off ? -1 : cpu.node][cpu.core];
    core.package = cpu.package;
    core.l3 = cpu.l3;
    core.number = cpu.core;
    core.cpus.push_back(cpu.os_id);
  }
  std::vector<CpuPool> pools;
  for (auto& [node, cores] : cores_of_node) {
    CpuPool pool{.node = node};
    for (auto& [number, core] : cores) {
      pool.cpus += static_cast<unsigned>(core.cpus.size());
      pool.cores.push_back(std::move(core));
    }
    pools.push_back(std::move(pool));
  }
  return pools;
}

std::vector<CpuPool> ChoosePools(const numa::Topology& topology, std::vector<CpuPool> pools, unsigned workers,
                                 unsigned min_size, int near_cpu) {
  std::vector<CpuPool> chosen;
  unsigned cpus = 0;
  unsigned cores = 0;
  const auto enough = [&] {
    if (cpus < workers) return false;
    return cores >= workers || workers < min_size * (chosen.size() + 1);
  };
  while (!pools.empty() && !enough()) {
    // The largest; among equal ones that with near_cpu, then the nearest to the first, then the lowest number.
    const auto rank = [&](const CpuPool& pool) {
      const int distance = chosen.empty() ? 0 : topology.Distance(chosen.front().node, pool.node);
      return std::tuple(-static_cast<int>(CoreCount(pool)), -static_cast<int>(pool.cpus), !HasCpu(pool, near_cpu),
                        distance, pool.node);
    };
    const auto best = std::min_element(pools.begin(), pools.end(),
                                       [&](const CpuPool& a, const CpuPool& b) { return rank(a) < rank(b); });
    cpus += best->cpus;
    cores += CoreCount(*best);
    chosen.push_back(std::move(*best));
    pools.erase(best);
  }
  std::sort(chosen.begin(), chosen.end(), [](const CpuPool& a, const CpuPool& b) { return a.node < b.node; });
  return chosen;
}

void ShareWorkers(unsigned workers, unsigned min_size, std::vector<CpuPool>* pools) {
  unsigned left = workers;
  const auto give = [&](auto capacity_of) {
    std::vector<unsigned> capacities;
    for (const CpuPool& pool : *pools) {
      const unsigned capacity = capacity_of(pool);
      capacities.push_back(capacity > pool.workers ? capacity - pool.workers : 0);
    }
    const std::vector<unsigned> shares = Apportion(left, capacities);
    for (std::size_t i = 0; i < pools->size(); ++i) {
      (*pools)[i].workers += shares[i];
      left -= shares[i];
    }
  };
  if (workers >= min_size * pools->size()) {
    give([&](const CpuPool& pool) { return std::min(min_size, pool.cpus); });
  }
  give(CoreCount);
  unsigned round = 0;
  while (left > 0) {
    ++round;
    give([&](const CpuPool& pool) { return round * pool.cpus; });
  }
}

}  // namespace weft::scheduling_group::planning
