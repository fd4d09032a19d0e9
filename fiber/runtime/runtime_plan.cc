// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_plan.h"

#include <cstddef>
#include <utility>
#include <vector>

#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/plan/named_groups.h"

namespace weft::fiber {

namespace {

using scheduling_group::PlannedGroup;
using scheduling_group::SchedulingGroup;

scheduling_group::PlanWishes Wishes(const RuntimeOptions& options) {
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

std::optional<scheduling_group::GroupPlan> PlanFor(const numa::Topology& machine, const RuntimeOptions& options,
                                                   std::string* error) {
  if (options.groups.empty()) return scheduling_group::PlanGroups(machine, Wishes(options), error);
  const auto named = scheduling_group::ParseNamedGroups(options.groups, error);
  if (!named.has_value()) return std::nullopt;
  return scheduling_group::PlanNamedGroups(machine, *named, Wishes(options), error);
}

// A plan for another machine (--fiber_topology) can be tried out anywhere. These are its CPUs that this machine has,
std::vector<int> CpusHere(const PlannedGroup& planned, const numa::Topology& here) {
  std::vector<int> cpus = planned.cpus;
  std::erase_if(cpus, [&](int cpu) { return here.FindCpu(cpu) == nullptr; });
  return cpus;
}

// and this is the CPU of each worker, -1 if it is not here.
std::vector<int> WorkerCpusHere(const PlannedGroup& planned, const numa::Topology& here) {
  std::vector<int> cpus = planned.worker_cpus;
  for (int& cpu : cpus) {
    if (here.FindCpu(cpu) == nullptr) cpu = -1;
  }
  return cpus;
}

}  // namespace

std::optional<RuntimePlan> PlanRuntime(const RuntimeOptions& options, std::string* error) {
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
  auto plan = PlanFor(result.machine, options, error);
  if (!plan.has_value()) return std::nullopt;
  result.plan = *std::move(plan);
  return result;
}

SchedulingGroup::Options OptionsOfGroup(int id, const PlannedGroup& planned, const RuntimeOptions& options,
                                        const numa::Topology& here) {
  return {
      .id = id,
      .name = planned.name,
      .workers = planned.workers,
      .policy = options.scheduling_name,
      .run_queue_size = static_cast<std::size_t>(options.run_queue_size),
      .stack_size = static_cast<std::size_t>(options.stack_size),
      .guard_pages = options.stack_enable_guard_page,
      .guard_size = static_cast<std::size_t>(options.stack_guard_size),
      .node = here.FindNode(planned.node) != nullptr ? planned.node : -1,
      .cpus = CpusHere(planned, here),
      .worker_cpus = options.worker_disallow_cpu_migration ? WorkerCpusHere(planned, here) : std::vector<int>(),
      .start_timeout = options.start_timeout,
      .warm_stacks = static_cast<std::size_t>(options.stack_pool_size),
      .record_stack_every = static_cast<std::size_t>(options.record_stack_every),
      .max_ready_wait = options.limit_ready_wait,
  };
}

}  // namespace weft::fiber
