// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/group_options.h"

#include <cstddef>
#include <vector>

namespace weft::fiber::detail {

namespace {

using scheduling_group::PlannedGroup;
using scheduling_group::SchedulingGroup;

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

SchedulingGroup::Options GroupOptions(int id, const PlannedGroup& planned, const Options& options,
                                      const numa::Topology& here) {
  return {
      .id = id,
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

}  // namespace weft::fiber::detail
