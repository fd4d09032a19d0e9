// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// Time is per fiber, from its start through its run and end to the latch that counts it. A batch is 1,000 fibers.
//
// BM_StartDetached:        a fiber starts them one by one. With one worker nothing runs before the spawner waits, so
//                          the figure is the sum of a start, a run on a warm stack, and an end. With two the second
//                          worker runs them meanwhile: the shared queue bounds the gain.
// BM_StartDetachedBatch:   by BatchStartFiberDetached: one push and one wake-up pass. The difference to the former is
//                          the cost of single pushes and of searches for idle workers.
// BM_StartDetachedThread:  a plain thread starts them.
// BM_StartBigCapture:      the callable has 128 bytes of captures, so it needs an allocation.
//
// Twin: std::thread, detached (ten a batch).

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/unique_function.h"
#include "weft/bench/fiber/benchmark_runtime.h"

namespace {

using weft::FiberLatch;
using weft::bench::BenchmarkRuntime;
using weft::bench::MustStart;
using weft::bench::OnSomeWorkers;

constexpr std::int64_t kBatch = 1'000;

void StartBatches(benchmark::State& state) {
  while (state.KeepRunningBatch(kBatch)) {
    FiberLatch latch(kBatch);
    for (std::int64_t i = 0; i < kBatch; ++i) MustStart([&latch] { latch.CountDown(); });
    latch.Wait();
  }
}

void BM_StartDetached(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] { StartBatches(state); });
}

void BM_StartDetachedThread(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  StartBatches(state);
}

void BM_StartDetachedBatch(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    while (state.KeepRunningBatch(kBatch)) {
      FiberLatch latch(kBatch);
      auto count_down = [&latch] { latch.CountDown(); };
      if (!weft::BatchStartFiberDetached(std::vector<decltype(count_down)>(kBatch, count_down))) std::abort();
      latch.Wait();
    }
  });
}

void BM_StartBigCapture(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    while (state.KeepRunningBatch(kBatch)) {
      FiberLatch latch(kBatch);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        MustStart([&latch, big = std::array<char, 128>()] {
          benchmark::DoNotOptimize(big.data());
          latch.CountDown();
        });
      }
      latch.Wait();
    }
  });
}

void BM_ThreadStartDetached(benchmark::State& state) {
  constexpr std::int64_t kThreadBatch = 10;
  while (state.KeepRunningBatch(kThreadBatch)) {
    auto latch = std::make_shared<std::latch>(kThreadBatch);
    for (std::int64_t i = 0; i < kThreadBatch; ++i) std::thread([latch] { latch->count_down(); }).detach();
    latch->wait();
  }
}

BENCHMARK(BM_StartDetached)->Apply(OnSomeWorkers);
BENCHMARK(BM_StartDetachedBatch)->Apply(OnSomeWorkers);
BENCHMARK(BM_StartDetachedThread)->Apply(OnSomeWorkers);
BENCHMARK(BM_StartBigCapture)->Apply(OnSomeWorkers);
BENCHMARK(BM_ThreadStartDetached)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
