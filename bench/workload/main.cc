// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_workload: the workloads on Weft. For the form of the output see harness.h, for each workload its header.

#include <gflags/gflags.h>

#include <cstdio>

#include "weft/bench/workload/all_workloads.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/weft_runtime.h"

DEFINE_bool(counts, false, "After each workload print what the scheduler has counted (scheduling_group/counters.h).");

namespace weft::bench {
namespace {

// One line for all groups: bench/count/scaling.py reads it.
void PrintCounts() {
  scheduling_group::WorkerCounts sum;
  unsigned long long stolen = 0;
  unsigned long long attempts = 0;
  for (const scheduling_group::GroupCounts& group : fiber::GetSchedulingCounts()) {
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
  const auto print = [](const char* name, unsigned long long count) { std::printf(" %s=%llu", name, count); };
  std::printf("# counts:");
  print("begun", sum.begun);
  print("switches", sum.switches);
  print("spins", sum.spins);
  print("sleeps", sum.sleeps);
  print("wakes", sum.wakes);
  print("peer_takes", sum.peer_takes);
  print("queue_visits", sum.queue_visits);
  print("queue_fibers", sum.queue_fibers);
  print("steal_attempts", attempts);
  print("stolen", stolen);
  std::printf("\n");
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) {
  using weft::bench::WeftRuntime;
  weft::bench::RuntimeUnderTest weft = weft::bench::Describe<WeftRuntime>();
  weft.stop = [] {
    if (FLAGS_counts) weft::bench::PrintCounts();
    WeftRuntime::Stop();
  };
  return weft::bench::RunWorkloads(argc, argv, {weft});
}
