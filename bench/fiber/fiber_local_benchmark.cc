// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_FiberLocalGet:   reading a fiber-local variable that exists: find the fiber, find the slot.
// BM_FiberLocalFirst: a fiber that touches one for the first time, over one that touches none (BM_StartDetached in
//                     spawn_benchmark.cc with one worker): the allocation of the fiber's table.
//
// Twin: thread_local, which a fiber must not keep across a switch.

#include <cstdint>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/fiber_local.h"

namespace {

using weft::FiberLatch;
using weft::FiberLocal;
using weft::bench::BenchmarkRuntime;
using weft::bench::MustStart;

void BM_FiberLocalGet(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  FiberLocal<std::int64_t> local;
  runtime.RunInside([&] {
    for (auto _ : state) benchmark::DoNotOptimize(++*local);
  });
}

void BM_FiberLocalFirst(benchmark::State& state) {
  constexpr std::int64_t kBatch = 1'000;
  BenchmarkRuntime runtime(state.range(0));
  FiberLocal<std::int64_t> local;
  runtime.RunInside([&] {
    while (state.KeepRunningBatch(kBatch)) {
      FiberLatch latch(kBatch);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        MustStart([&] {
          benchmark::DoNotOptimize(++*local);
          latch.CountDown();
        });
      }
      latch.Wait();
    }
  });
}

void BM_ThreadLocalGet(benchmark::State& state) {
  thread_local volatile std::int64_t local = 0;
  for (auto _ : state) local = local + 1;
}

BENCHMARK(BM_FiberLocalGet)->Apply(weft::bench::OnSomeWorkers);
BENCHMARK(BM_FiberLocalFirst)->ArgName("workers")->Arg(1)->UseRealTime();
BENCHMARK(BM_ThreadLocalGet);

}  // namespace
