// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// Two groups of one worker each, 4,000 fibers that compute for some 50 us each.
// BM_AllInOneGroup: all are started in group 0. While stealing is on (`every_n`: --fiber_work_stealing_ratio) it should
// take the time of BM_SplitEvenly; with 0, never, twice as long. `in_group_1` is the share that group 1 ran.
// BM_SplitEvenly: a half in each group, to compare with.
// BM_BothBusy: each group has 100 fibers that only yield, so stealing gains nothing: the difference to `every_n` 0 is
// its cost.
//
// Needs two cores that nothing else uses; compare medians of --benchmark_repetitions.

#include <atomic>
#include <cstdint>

#include "weft/bench/fiber/benchmark_runtime.h"

namespace {

using weft::FiberLatch;

constexpr int kFibers = 4000;

void Compute() {
  for (int step = 0; step < 100'000; ++step) benchmark::DoNotOptimize(step);
}

void RunLoad(benchmark::State& state, std::int64_t every_n, std::size_t groups_to_start_in) {
  weft::RuntimeOptions options;
  options.concurrency_hint = 2;
  options.scheduling_group_size = 1;
  options.work_stealing_ratio = every_n;
  weft::StartRuntime(options);
  std::int64_t in_group_one = 0;
  for (auto _ : state) {
    std::atomic<std::int64_t> ran_in_group_one = 0;
    FiberLatch done(kFibers);
    for (int i = 0; i < kFibers; ++i) {
      weft::Fiber::Attributes attributes;
      attributes.scheduling_group = static_cast<std::size_t>(i) % groups_to_start_in;
      const bool started = weft::StartFiberDetached(attributes, [&] {
        Compute();
        ran_in_group_one.fetch_add(weft::GetCurrentSchedulingGroupIndex() == 1 ? 1 : 0, std::memory_order_relaxed);
        done.CountDown();
      });
      if (!started) state.SkipWithError("a fiber was refused");
    }
    done.Wait();
    in_group_one += ran_in_group_one.load(std::memory_order_relaxed);
  }

  state.counters["in_group_1"] =
      static_cast<double>(in_group_one) / static_cast<double>(kFibers) / static_cast<double>(state.iterations());
  const auto counts = weft::GetSchedulingCounts();
  const auto iterations = static_cast<double>(state.iterations());
  if (!counts[1].steals.empty()) {
    state.counters["attempts"] = static_cast<double>(counts[1].steals[0].attempts) / iterations;
    state.counters["stolen"] = static_cast<double>(counts[1].steals[0].stolen_in) / iterations;
  }
  state.counters["sleeps"] = static_cast<double>(counts[1].Sum().sleeps) / iterations;
  weft::TerminateRuntime();
}

void BM_BothBusy(benchmark::State& state) {
  constexpr int kYielders = 200;
  constexpr int kYields = 2000;
  weft::RuntimeOptions options;
  options.concurrency_hint = 2;
  options.scheduling_group_size = 1;
  options.work_stealing_ratio = state.range(0);
  weft::StartRuntime(options);
  for (auto _ : state) {
    FiberLatch done(kYielders);
    for (int i = 0; i < kYielders; ++i) {
      weft::Fiber::Attributes attributes;
      attributes.scheduling_group = static_cast<std::size_t>(i) % 2;
      const bool started = weft::StartFiberDetached(attributes, [&] {
        for (int y = 0; y < kYields; ++y) weft::FiberYield();
        done.CountDown();
      });
      if (!started) state.SkipWithError("a fiber was refused");
    }
    done.Wait();
  }
  weft::TerminateRuntime();
}

void BM_AllInOneGroup(benchmark::State& state) { RunLoad(state, state.range(0), 1); }
void BM_SplitEvenly(benchmark::State& state) { RunLoad(state, 16, 2); }

BENCHMARK(BM_AllInOneGroup)
    ->ArgName("every_n")
    ->Arg(16)
    ->Arg(1)
    ->Arg(64)
    ->Arg(0)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(BM_BothBusy)->ArgName("every_n")->Arg(16)->Arg(0)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_SplitEvenly)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
