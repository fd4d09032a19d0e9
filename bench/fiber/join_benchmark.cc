// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// One fiber starts another and joins it; time is per pair of start and join.
//
// BM_StartAndJoin:     Launch::Post. The spawner blocks, the new fiber runs, its end wakes the spawner: two switches
//                      and one allocation (the state that the two share). On several workers the new fiber may run
//                      elsewhere, and the figure then contains what it costs to get it there.
// BM_DispatchAndJoin:  Launch::Dispatch. The new fiber runs at once and the join mostly finds it finished.
//
// Twin: std::thread.

#include <thread>

#include "weft/bench/fiber/benchmark_runtime.h"

namespace {

using weft::Fiber;
using weft::bench::BenchmarkRuntime;
using weft::bench::OnSomeWorkers;

void StartAndJoin(benchmark::State& state, weft::Launch policy) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    int ran = 0;
    for (auto _ : state) {
      Fiber fiber(policy, [&ran] { ++ran; });
      fiber.Join();
      benchmark::DoNotOptimize(ran);
    }
  });
}

void BM_StartAndJoin(benchmark::State& state) { StartAndJoin(state, weft::Launch::Post); }
void BM_DispatchAndJoin(benchmark::State& state) { StartAndJoin(state, weft::Launch::Dispatch); }

void BM_ThreadStartAndJoin(benchmark::State& state) {
  int ran = 0;
  for (auto _ : state) {
    std::thread thread([&ran] { ++ran; });
    thread.join();
    benchmark::DoNotOptimize(ran);
  }
}

BENCHMARK(BM_StartAndJoin)->Apply(OnSomeWorkers);
BENCHMARK(BM_DispatchAndJoin)->Apply(OnSomeWorkers);
BENCHMARK(BM_ThreadStartAndJoin)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
