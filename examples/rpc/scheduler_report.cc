// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/scheduler_report.h"

#include <chrono>
#include <cstdint>

#include "weft/fiber/runtime.h"

namespace weft::rpc {

void PrintSchedulerReport(std::ostream& out) {
  using Microseconds = std::chrono::duration<double, std::micro>;
  for (const GroupCounts& group : GetSchedulingCounts()) {
    const WorkerCounts sum = group.Sum();
    std::uint64_t stolen = 0;
    for (const StealCounts& steals : group.steals) stolen += steals.stolen_in;
    out << "group " << group.group << (group.name.empty() ? "" : " (" + group.name + ")") << ", "
        << group.workers.size() << " worker(s): fibers " << sum.begun << ", switches " << sum.switches << ", stolen "
        << stolen << ", wakes " << sum.wakes << ", sleeps " << sum.sleeps << ", ready to run p50 "
        << Microseconds(group.ready_wait.Percentile(0.5)).count() << " us, p99 "
        << Microseconds(group.ready_wait.Percentile(0.99)).count() << " us\n";
  }
}

}  // namespace weft::rpc
