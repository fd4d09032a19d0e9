// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A runtime for the length of one benchmark, and the benchmark's loop inside a fiber of it.
//
//   void BM_Something(benchmark::State& state) {
//     BenchmarkRuntime runtime(state.range(0));
//     runtime.RunInside([&] {
//       for (auto _ : state) ...
//     });
//   }
//   BENCHMARK(BM_Something)->Apply(OnSomeWorkers);
//
// The loop may move between threads, so time is wall time and CPU time is that of the process.
#ifndef WEFT_BENCH_FIBER_BENCHMARK_RUNTIME_H_
#define WEFT_BENCH_FIBER_BENCHMARK_RUNTIME_H_

#include <benchmark/benchmark.h>
#include <gflags/gflags.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_latch.h"

namespace weft::bench {

class BenchmarkRuntime {
 public:
  explicit BenchmarkRuntime(std::int64_t workers) {
    const std::string text = std::to_string(workers);
    google::SetCommandLineOption("fiber_concurrency_hint", text.c_str());
    google::SetCommandLineOption("fiber_scheduling_group_size", text.c_str());
    StartRuntime();
  }
  ~BenchmarkRuntime() { TerminateRuntime(); }

  BenchmarkRuntime(const BenchmarkRuntime&) = delete;
  BenchmarkRuntime& operator=(const BenchmarkRuntime&) = delete;

  template <class F>
  void RunInside(F&& f) {
    Fiber fiber(std::forward<F>(f));
    fiber.Join();
  }
};

// A start that the benchmark cannot do without.
template <class F>
void MustStart(F&& f) {
  if (!StartFiberDetached(std::forward<F>(f))) std::abort();
}

inline void OnSomeWorkers(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("workers")->Arg(1)->Arg(2)->Arg(8)->UseRealTime()->MeasureProcessCPUTime();
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_FIBER_BENCHMARK_RUNTIME_H_
