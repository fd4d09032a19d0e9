// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_Uncontended: lock and unlock by one fiber (one thread): two atomic read-modify-writes, about 10 ns.
// BM_Contended: 64 fibers take the mutex 500 times each for ++counter; time per lock. With one worker it is
// BM_Uncontended, since fibers are not preempted. More workers show the price of contention: a mutex handed to a
// sleeper at each unlock shows 100 ns and more here.
// BM_ContendedWhileYielding: 16 fibers, 100 times each; the owner yields while it owns the mutex, so each following
// lock is a wait.
//
// Twins: std::mutex between as many threads.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::bench {
namespace {

void BM_Uncontended(benchmark::State& state) {
  BenchmarkRuntime runtime(1);
  runtime.RunInside([&] {
    FiberMutex mutex;
    for (auto _ : state) {
      mutex.lock();
      mutex.unlock();
    }
  });
}
BENCHMARK(BM_Uncontended);

void BM_UncontendedStd(benchmark::State& state) {
  std::mutex mutex;
  for (auto _ : state) {
    mutex.lock();
    mutex.unlock();
  }
}
BENCHMARK(BM_UncontendedStd)->Threads(1);

template <class InsideLock>
void RunContended(benchmark::State& state, int fibers, int rounds, InsideLock inside_lock) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    FiberMutex mutex;
    std::int64_t counter = 0;
    for (auto _ : state) {
      FiberLatch done(fibers);
      for (int i = 0; i < fibers; ++i) {
        MustStart([&] {
          for (int r = 0; r < rounds; ++r) {
            mutex.lock();
            ++counter;
            inside_lock();
            mutex.unlock();
          }
          done.CountDown();
        });
      }
      done.Wait();
    }
    benchmark::DoNotOptimize(counter);
  });
  state.SetItemsProcessed(state.iterations() * fibers * rounds);
}

void BM_Contended(benchmark::State& state) {
  RunContended(state, 64, 500, [] {});
}
BENCHMARK(BM_Contended)->Apply(OnSomeWorkers);

void BM_ContendedWhileYielding(benchmark::State& state) {
  RunContended(state, 16, 100, [] { FiberYield(); });
}
BENCHMARK(BM_ContendedWhileYielding)->Apply(OnSomeWorkers);

void BM_ContendedStd(benchmark::State& state) {
  constexpr int kRounds = 20'000;
  const auto threads = static_cast<int>(state.range(0));
  std::mutex mutex;
  std::int64_t counter = 0;
  for (auto _ : state) {
    std::vector<std::thread> crew;
    for (int t = 0; t < threads; ++t) {
      crew.emplace_back([&] {
        for (int r = 0; r < kRounds; ++r) {
          std::scoped_lock lock(mutex);
          ++counter;
        }
      });
    }
    for (std::thread& thread : crew) thread.join();
  }
  benchmark::DoNotOptimize(counter);
  state.SetItemsProcessed(state.iterations() * threads * kRounds);
}
BENCHMARK(BM_ContendedStd)->ArgName("threads")->Arg(1)->Arg(2)->Arg(8)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace weft::bench
