// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker_placement.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/scheduling_group/apportion.h"

namespace weft::scheduling_group::planning {
namespace {

// The pool's cores by L3 domain, in the order in which domains are filled: the largest first, of equals the nearest.
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
    return std::tuple(-static_cast<int>(cores.size()), first.l3 != near_l3, first.package != near_package,
                      first.package, first.l3);
  };
  std::sort(domains.begin(), domains.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return domains;
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

void PlaceWorkers(CpuPool* pool, int near_cpu) {
  const unsigned rounds = pool->workers / pool->cpus;  // On each CPU.
  unsigned left = pool->workers % pool->cpus;
  const std::vector<std::vector<Core*>> domains = DomainsToFill(pool, near_cpu);
  std::vector<unsigned> spare_siblings;
  for (const auto& cores : domains) {
    unsigned spare = 0;
    for (Core* core : cores) {
      const unsigned first = left > 0 ? 1 : 0;
      left -= first;
      core->workers = rounds * static_cast<unsigned>(core->cpus.size()) + first;
      spare += static_cast<unsigned>(core->cpus.size()) - 1;
    }
    spare_siblings.push_back(spare);
  }
  const std::vector<unsigned> shares = Apportion(left, spare_siblings);
  for (std::size_t i = 0; i < domains.size(); ++i) PlaceOnSiblings(shares[i], domains[i]);
}

}  // namespace weft::scheduling_group::planning
