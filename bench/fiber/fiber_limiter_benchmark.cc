// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What it costs to ask whether there is capacity for new work (fiber_limiter.h).
//
// BM_TryAdmit:            in a fiber, both limits set and far away. limits:0 without them: the difference is the share
//                         in counting the live fibers.
// BM_TryAdmitThreads:     by plain threads at once: a shared line would show here.
// BM_TryAdmitNearLimit:   so close to limit_fibers that each admission counts the fibers.
// BM_TryAdmitRefused:     limit_fibers is reached; each refusal reads the clock.
// BM_IsOverloaded:        as BM_TryAdmit, without counting the answer.
// BM_StartIfNotOverloaded: a start that asks, with its run and its end; as BM_StartDetached in spawn_benchmark.cc, with
//                         attributes. asks:0 is the same without asking.

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/sync/fiber_event.h"

namespace {

using weft::Admission;
using weft::FiberEvent;
using weft::FiberLatch;
using weft::IsOverloaded;
using weft::TryAdmit;
using weft::bench::BenchmarkRuntime;
using weft::bench::MustStart;

// Before the runtime is started, which reads the flags.
class Limits {
 public:
  Limits(int ready_wait_ms, std::int64_t fibers) { Set(ready_wait_ms, fibers); }
  ~Limits() { Set(0, 0); }

 private:
  static void Set(int ready_wait_ms, std::int64_t fibers) {
    google::SetCommandLineOption("fiber_limit_ready_wait_ms", std::to_string(ready_wait_ms).c_str());
    google::SetCommandLineOption("fiber_limit_fibers", std::to_string(fibers).c_str());
  }
};

void BM_TryAdmit(benchmark::State& state) {
  const bool limited = state.range(0) != 0;
  const Limits limits(limited ? 1000 : 0, limited ? 100'000 : 0);
  BenchmarkRuntime runtime(2);
  runtime.RunInside([&] {
    for (auto _ : state) {
      if (TryAdmit() != Admission::kAdmitted) std::abort();
    }
  });
}

void BM_IsOverloaded(benchmark::State& state) {
  const Limits limits(1000, 100'000);
  BenchmarkRuntime runtime(2);
  runtime.RunInside([&] {
    for (auto _ : state) {
      if (IsOverloaded()) std::abort();
    }
  });
}

void BM_TryAdmitThreads(benchmark::State& state) {
  const Limits limits(1000, 100'000);
  static BenchmarkRuntime* runtime = nullptr;
  if (state.thread_index() == 0) runtime = new BenchmarkRuntime(2);
  for (auto _ : state) {
    if (TryAdmit() != Admission::kAdmitted) std::abort();
  }
  if (state.thread_index() == 0) delete runtime;
}

void WithFibersAlive(benchmark::State& state, std::int64_t limit, std::int64_t alive, Admission expected) {
  const Limits limits(1000, limit);
  BenchmarkRuntime runtime(2);
  runtime.RunInside([&] {
    FiberEvent event;
    FiberLatch ended(alive);
    for (std::int64_t i = 0; i < alive; ++i) {
      MustStart([&] {
        event.Wait();
        ended.CountDown();
      });
    }
    for (auto _ : state) {
      if (TryAdmit() != expected) std::abort();
    }
    event.Set();
    ended.Wait();
  });
}

void BM_TryAdmitNearLimit(benchmark::State& state) { WithFibersAlive(state, 1000, 990, Admission::kAdmitted); }
void BM_TryAdmitRefused(benchmark::State& state) { WithFibersAlive(state, 1000, 1000, Admission::kTooManyFibers); }

void BM_StartIfNotOverloaded(benchmark::State& state) {
  constexpr std::int64_t kBatch = 1'000;
  const Limits limits(1000, 100'000);
  BenchmarkRuntime runtime(2);
  const weft::Fiber::Attributes attributes{.refuse_if_overloaded = state.range(0) != 0};
  runtime.RunInside([&] {
    while (state.KeepRunningBatch(kBatch)) {
      FiberLatch latch(kBatch);
      for (std::int64_t i = 0; i < kBatch; ++i) {
        if (!weft::StartFiberDetached(attributes, [&latch] { latch.CountDown(); })) std::abort();
      }
      latch.Wait();
    }
  });
}

BENCHMARK(BM_TryAdmit)->ArgName("limits")->Arg(0)->Arg(1);
BENCHMARK(BM_IsOverloaded);
BENCHMARK(BM_TryAdmitThreads)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_TryAdmitNearLimit);
BENCHMARK(BM_TryAdmitRefused);
BENCHMARK(BM_StartIfNotOverloaded)->ArgName("asks")->Arg(0)->Arg(1)->UseRealTime();

}  // namespace
