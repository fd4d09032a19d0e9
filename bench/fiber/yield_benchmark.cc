// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_Yield: time per yield when `fibers` fibers do nothing else: one push into the run queue, one pop and one switch.
// With 2 fibers everything is in the first-level cache; with 1,000 it is not, and the difference is the misses. With
// one worker nobody contends for the queue; more workers move the queue's lines between cores.
// BM_YieldAlone: a fiber that yields while no other is ready.
//
// Twin: std::this_thread::yield() by two threads bound to one core.

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "weft/bench/fiber/benchmark_runtime.h"

namespace {

using weft::FiberLatch;
using weft::FiberYield;
using weft::bench::BenchmarkRuntime;
using weft::bench::MustStart;

constexpr std::int64_t kYieldsPerFiber = 100;

void BM_Yield(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  const std::int64_t fibers = state.range(1);
  runtime.RunInside([&] {
    while (state.KeepRunningBatch(fibers * kYieldsPerFiber)) {
      FiberLatch done(fibers);
      for (std::int64_t i = 0; i < fibers; ++i) {
        MustStart([&done] {
          for (std::int64_t y = 0; y < kYieldsPerFiber; ++y) FiberYield();
          done.CountDown();
        });
      }
      done.Wait();
    }
  });
}

void BM_YieldAlone(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) FiberYield();
  });
}

void BM_ThreadYield(benchmark::State& state) {
  cpu_set_t former;
  pthread_getaffinity_np(pthread_self(), sizeof(former), &former);
  cpu_set_t first_cpu;
  CPU_ZERO(&first_cpu);
  CPU_SET(0, &first_cpu);
  pthread_setaffinity_np(pthread_self(), sizeof(first_cpu), &first_cpu);
  std::atomic<bool> stop = false;
  std::thread other([&] {  // Inherits the affinity.
    while (!stop.load(std::memory_order_relaxed)) std::this_thread::yield();
  });
  for (auto _ : state) std::this_thread::yield();
  stop.store(true, std::memory_order_relaxed);
  other.join();
  pthread_setaffinity_np(pthread_self(), sizeof(former), &former);
}

BENCHMARK(BM_Yield)
    ->ArgNames({"workers", "fibers"})
    ->ArgsProduct({{1, 2, 8}, {2, 16, 1000}})
    ->UseRealTime()
    ->MeasureProcessCPUTime();
BENCHMARK(BM_YieldAlone)->Apply(weft::bench::OnSomeWorkers);
BENCHMARK(BM_ThreadYield)->UseRealTime();

}  // namespace
