// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_scaling: bench/workload's workloads, and those of all_groups.h, for scaling.py. After each, or for a while in
// its middle, it prints what the scheduler has counted (scheduling_group/group/counters.h), and EntityPool's locks: one
// line for all groups.

#include <cstddef>
#include <cstdint>
#include <cstdio>

#include "weft/bench/count/all_groups.h"
#include "weft/bench/count/counted_entity_pool.h"
#include "weft/bench/workload/all_workloads.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/weft_runtime.h"

namespace weft::bench {
namespace {

bool counted_a_while = false;

}  // namespace

Counts ReadCounts() {
  scheduling_group::WorkerCounts sum;
  std::uint64_t stolen = 0;
  std::uint64_t attempts = 0;
  for (const scheduling_group::GroupCounts& group : GetSchedulingCounts()) {
    const scheduling_group::WorkerCounts own = group.Sum();
    sum.begun += own.begun;
    sum.switches += own.switches;
    sum.spins += own.spins;
    sum.sleeps += own.sleeps;
    sum.wakes += own.wakes;
    sum.peer_takes += own.peer_takes;
    sum.queue_visits += own.queue_visits;
    sum.queue_fibers += own.queue_fibers;
    for (const scheduling_group::StealCounts& steals : group.steals) {
      stolen += steals.stolen_in;
      attempts += steals.attempts;
    }
  }
  const EntityPoolLocks pool = ReadEntityPoolLocks();
  return {{"begun", sum.begun},
          {"switches", sum.switches},
          {"spins", sum.spins},
          {"sleeps", sum.sleeps},
          {"wakes", sum.wakes},
          {"peer_takes", sum.peer_takes},
          {"queue_visits", sum.queue_visits},
          {"queue_fibers", sum.queue_fibers},
          {"steal_attempts", attempts},
          {"stolen", stolen},
          {"pool_locks", pool.taken},
          {"pool_waits", pool.waited}};
}

void PrintCounts(const Counts& now, const Counts& before) {
  std::printf("# counts:");
  for (std::size_t i = 0; i < now.size(); ++i) {
    const std::uint64_t earlier = before.empty() ? 0 : before[i].second;
    std::printf(" %s=%llu", now[i].first, static_cast<unsigned long long>(now[i].second - earlier));
  }
  std::printf("\n");
  counted_a_while = !before.empty();
}

}  // namespace weft::bench

int main(int argc, char** argv) {
  using weft::bench::WeftRuntime;
  weft::bench::RuntimeUnderTest weft = weft::bench::Describe<WeftRuntime>();
  weft.workloads.push_back({"spawn_all", "spawn_all", weft::bench::RunSpawnAll, 1, 60});
  weft.workloads.push_back({"spawn_across_all", "spawn_across_all", weft::bench::RunSpawnAcrossAll, 1, 60});
  weft.workloads.push_back({"spawn_ext_all", "spawn_ext_all", weft::bench::RunSpawnExternalAll, 1, 60});
  weft.workloads.push_back({"yield_all", "yield_all", weft::bench::RunYieldAll, 1, 60});
  weft.workloads.push_back({"pingpong_all", "pingpong_all", weft::bench::RunPingPongAll, 1, 60});
  weft.stop = [] {
    if (!weft::bench::counted_a_while) weft::bench::PrintCounts(weft::bench::ReadCounts(), {});
    WeftRuntime::Stop();
  };
  return weft::bench::RunWorkloads(argc, argv, {weft});
}
