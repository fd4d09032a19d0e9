// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/plan/cpu_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

namespace weft::scheduling_group::planning {
namespace {

unsigned CoreCount(const CpuPool& pool) { return static_cast<unsigned>(pool.cores.size()); }

bool HasCpu(const CpuPool& pool, int cpu) {
  return std::any_of(pool.cores.begin(), pool.cores.end(), [&](const Core& core) {
    return std::find(core.cpus.begin(), core.cpus.end(), cpu) != core.cpus.end();
  });
}

// The pool's cores by L3 domain, in the order in which domains are filled: the largest first, of equals the fastest,
// then the nearest.
std::vector<std::vector<Core*>> DomainsToFill(CpuPool* pool, int near_cpu) {
  std::map<int, std::vector<Core*>> by_l3;
  int near_l3 = -1;
  int near_package = -1;
  for (Core& core : pool->cores) {
    by_l3[core.l3].push_back(&core);
    if (std::find(core.cpus.begin(), core.cpus.end(), near_cpu) == core.cpus.end()) continue;
    near_l3 = core.l3;
    near_package = core.package;
  }
  std::vector<std::vector<Core*>> domains;
  domains.reserve(by_l3.size());
  for (auto& [l3, cores] : by_l3) domains.push_back(std::move(cores));
  const auto rank = [&](const std::vector<Core*>& cores) {
    const Core& first = *cores.front();
    return std::tuple(-static_cast<int>(cores.size()), -first.kind, first.l3 != near_l3, first.package != near_package,
                      first.package, first.l3);
  };
  std::sort(domains.begin(), domains.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return domains;
}

// Fills one capacity after the other.
std::vector<unsigned> Fill(unsigned total, const std::vector<unsigned>& capacities) {
  std::vector<unsigned> shares;
  for (const unsigned capacity : capacities) {
    shares.push_back(std::min(total, capacity));
    total -= shares.back();
  }
  return shares;
}

// Places workers on the second hardware threads of a domain's cores, then on the third ones ...
void PlaceOnSiblings(unsigned workers, const std::vector<Core*>& cores) {
  for (std::size_t thread = 1; workers > 0; ++thread) {
    for (Core* core : cores) {
      if (workers == 0 || thread >= core->cpus.size()) continue;
      ++core->workers;
      --workers;
    }
  }
}

}  // namespace

std::vector<unsigned> Apportion(unsigned total, const std::vector<unsigned>& capacities) {
  const std::uint64_t capacity = std::accumulate(capacities.begin(), capacities.end(), std::uint64_t{0});
  if (total >= capacity) return capacities;
  std::vector<unsigned> shares;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // the largest fractions first, of equal ones the first
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const std::uint64_t share = std::uint64_t{total} * capacities[i];
    shares.push_back(static_cast<unsigned>(share / capacity));
    order.emplace_back(capacity - share % capacity, i);
  }
  unsigned left = total - std::accumulate(shares.begin(), shares.end(), 0U);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[order[i].second];
  return shares;
}

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
    core.kind = cpu.kind;
    core.cpus.push_back(cpu.os_id);
  }
  std::vector<CpuPool> pools;
  for (auto& [node, cores] : cores_of_node) {
    CpuPool pool{.node = node};
    for (auto& [number, core] : cores) {
      pool.cpus += static_cast<unsigned>(core.cpus.size());
      pool.cores.push_back(std::move(core));
    }
    std::stable_sort(pool.cores.begin(), pool.cores.end(),
                     [](const Core& a, const Core& b) { return a.kind > b.kind; });
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
    const bool group_without_cores = workers >= cores + min_size;
    return !group_without_cores || workers < min_size * (chosen.size() + 1);
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

void PlaceWorkers(CpuPool* pool, int near_cpu) {
  const unsigned rounds = pool->workers / pool->cpus;  // On each CPU.
  const unsigned left = pool->workers % pool->cpus;
  const unsigned on_cores = std::min(left, CoreCount(*pool));
  const std::vector<std::vector<Core*>> domains = DomainsToFill(pool, near_cpu);
  std::vector<unsigned> cores;
  std::vector<unsigned> siblings;
  for (const auto& domain : domains) {
    unsigned cpus = 0;
    for (Core* core : domain) {
      core->workers = rounds * static_cast<unsigned>(core->cpus.size());
      cpus += static_cast<unsigned>(core->cpus.size());
    }
    cores.push_back(static_cast<unsigned>(domain.size()));
    siblings.push_back(cpus - cores.back());
  }
  // Few workers are together (GP4). Where each CPU has a worker, the further ones are spread (GP3).
  const std::vector<unsigned> first = rounds == 0 ? Fill(on_cores, cores) : Apportion(on_cores, cores);
  const std::vector<unsigned> further = Apportion(left - on_cores, siblings);
  for (std::size_t i = 0; i < domains.size(); ++i) {
    for (unsigned core = 0; core < first[i]; ++core) ++domains[i][core]->workers;
    PlaceOnSiblings(further[i], domains[i]);
  }
}

}  // namespace weft::scheduling_group::planning
