// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_plan.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/report/str_cat.h"
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
  std::optional<scheduling_group::GroupPlan> plan;
  if (const auto named = scheduling_group::ParseNamedGroups(options.groups, error)) {
    plan = scheduling_group::PlanNamedGroups(machine, *named, Wishes(options), error);
  }
  if (!plan.has_value()) *error = base::StrCat("--fiber_groups=", options.groups, ": ", *error);
  return plan;
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

// By island: groups of a node, and of all nodes between which an idle worker searches. Of each name: names are kept
// apart by the user's wish, and none is another one's island.
std::map<std::string, std::vector<unsigned>> WorkersOfIslands(const scheduling_group::GroupPlan& plan,
                                                              const RuntimeOptions& options) {
  std::map<std::string, std::vector<unsigned>> islands;
  std::vector<bool> seen(plan.groups.size(), false);
  for (std::size_t first = 0; first < plan.groups.size(); ++first) {
    if (seen[first]) continue;
    unsigned& workers = islands[plan.groups[first].name].emplace_back(0);
    std::vector<std::size_t> reached = {first};
    seen[first] = true;
    for (std::size_t i = 0; i < reached.size(); ++i) {
      const PlannedGroup& group = plan.groups[reached[i]];
      workers += group.workers;
      for (const PlannedGroup::Neighbour& neighbour : group.neighbours) {
        const auto other = static_cast<std::size_t>(neighbour.group);
        if (seen[other] || (!neighbour.same_node && StealEveryN(neighbour, options) == 0)) continue;
        seen[other] = true;
        reached.push_back(other);
      }
    }
  }
  return islands;
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
      .stall_warning = options.stall_warning,
  };
}

std::int64_t StealEveryN(const PlannedGroup::Neighbour& neighbour, const RuntimeOptions& options) {
  if (neighbour.same_node) return options.work_stealing_ratio;
  if (options.cross_numa_work_stealing_ratio != RuntimeOptions::kStealByDistance)
    return options.cross_numa_work_stealing_ratio;
  if (!neighbour.same_package) return 0;
  constexpr std::int64_t kMost = 1'000'000;  // As of the flags. Distances come from files, too.
  return std::min(options.work_stealing_ratio * neighbour.distance / numa::kLocalDistance, kMost);
}

std::string DescribeIslands(const scheduling_group::GroupPlan& plan, const RuntimeOptions& options) {
  if (options.cross_numa_work_stealing_ratio != RuntimeOptions::kStealByDistance) return "";
  for (const auto& [name, islands] : WorkersOfIslands(plan, options)) {
    const auto [least, most] = std::minmax_element(islands.begin(), islands.end());
    if (islands.size() < 2 || *least >= scheduling_group::kMinPlannedGroupSize) continue;
    return base::StrCat("the workers ", name.empty() ? std::string() : base::StrCat("of '", name, "' "), "are ",
                        islands.size(), " islands of ", *least,
                        *least == *most ? std::string() : base::StrCat(" to ", *most),
                        ", on NUMA nodes of different sockets, between which no work moves: "
                        "--fiber_cross_numa_work_stealing_ratio=64 moves it, and so does --fiber_numa_aware=off");
  }
  return "";
}

}  // namespace weft::fiber
