// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_plan.h"

#include <utility>
#include <vector>

#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/memory/affinity.h"

namespace weft::fiber {

namespace {

scheduling_group::PlanWishes Wishes(const Options& options) {
  using Numa = scheduling_group::PlanWishes::Numa;
  return {
      .workers = static_cast<unsigned>(options.concurrency_hint),
      .group_size = static_cast<unsigned>(options.scheduling_group_size),
      .numa = options.numa_aware == NumaAware::kOn    ? Numa::kOn
              : options.numa_aware == NumaAware::kOff ? Numa::kOff
                                                      : Numa::kAuto,
      // We have no place on another machine.
      .near_cpu = options.topology.empty() ? numa::CurrentCpu() : -1,
  };
}

}  // namespace

std::optional<RuntimePlan> PlanRuntime(const Options& options, std::string* error) {
  RuntimePlan result{.machine = {}, .here = numa::Topology::Detect(), .plan = {}};
  result.machine = result.here;
  if (!options.topology.empty()) {
    auto described = numa::Topology::FromString(options.topology, error);
    if (!described.has_value()) return std::nullopt;
    result.machine = *std::move(described);
  }
  if (!options.worker_accessible_cpus.empty()) {
    const std::optional<std::vector<int>> cpus = numa::ParseCpuList(options.worker_accessible_cpus, error);
    if (!cpus.has_value()) return std::nullopt;
    auto restricted = result.machine.Restrict(*cpus, error);
    if (!restricted.has_value()) return std::nullopt;
    result.machine = *std::move(restricted);
  }
  auto plan = scheduling_group::PlanGroups(result.machine, Wishes(options), error);
  if (!plan.has_value()) return std::nullopt;
  result.plan = *std::move(plan);
  return result;
}

}  // namespace weft::fiber
