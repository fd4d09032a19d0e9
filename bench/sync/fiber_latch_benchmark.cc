// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_CountDown: one CountDown() that is not the last: one atomic read-modify-write, 5 ns. Twin: std::latch.
// BM_WakeAll: one fiber opens a latch for which 1,000 others wait; time per waiter, from the opening until all have
// run. BM_Fan: one fiber starts 100 others and waits for them with a latch; time per fiber.

#include <benchmark/benchmark.h>

#include <latch>
#include <limits>
#include <optional>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/sync/fiber_latch.h"

namespace weft::bench {
namespace {

void BM_CountDown(benchmark::State& state) {
  constexpr std::ptrdiff_t kCount = std::numeric_limits<std::ptrdiff_t>::max() / 2;
  FiberLatch latch(kCount);
  for (auto _ : state) latch.CountDown();
}
BENCHMARK(BM_CountDown);

void BM_CountDownStd(benchmark::State& state) {
  std::optional<std::latch> latch(std::latch::max());
  std::ptrdiff_t left = std::latch::max();
  for (auto _ : state) {
    if (--left == 0) left = latch.emplace(std::latch::max()).max();
    latch->count_down();
  }
}
BENCHMARK(BM_CountDownStd);

void BM_WakeAll(benchmark::State& state) {
  constexpr int kWaiters = 1'000;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      state.PauseTiming();
      FiberLatch waiting(kWaiters), gate(1), done(kWaiters);
      for (int i = 0; i < kWaiters; ++i) {
        MustStart([&] {
          waiting.CountDown();
          gate.Wait();
          done.CountDown();
        });
      }
      waiting.Wait();
      state.ResumeTiming();
      gate.CountDown();
      done.Wait();
    }
  });
  state.SetItemsProcessed(state.iterations() * kWaiters);
}
BENCHMARK(BM_WakeAll)->Apply(OnSomeWorkers);

void BM_Fan(benchmark::State& state) {
  constexpr int kFibers = 100;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      FiberLatch done(kFibers);
      for (int i = 0; i < kFibers; ++i) {
        MustStart([&] { done.CountDown(); });
      }
      done.Wait();
    }
  });
  state.SetItemsProcessed(state.iterations() * kFibers);
}
BENCHMARK(BM_Fan)->Apply(OnSomeWorkers);

}  // namespace
}  // namespace weft::bench
