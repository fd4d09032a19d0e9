// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_PromiseAndFuture: a pair is made, resolved and asked, by one fiber: the one allocation, and what lies between.
// BM_Then:             the same with one continuation between them: time per pair and continuation.
// BM_WakeByPromise:    a fiber waits for a Future that another one resolves. Time per round of two such hand-offs.
// BM_AsyncAndGet:      a fiber calls a function by Async() and waits for the result: time per call. Beside it
//                      BM_StartAndJoin of join_benchmark.cc, which has no result.
// BM_CollectAll:       the same for a batch: time per batch of `functions`.
//
// Twins: std::promise, and std::async, which makes a thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <utility>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/async.h"
#include "weft/fiber/collect.h"
#include "weft/fiber/future.h"

namespace {

using weft::Future;
using weft::Promise;
using weft::bench::BenchmarkRuntime;
using weft::bench::OnSomeWorkers;

void BM_PromiseAndFuture(benchmark::State& state) {
  for (auto _ : state) {
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    promise.SetValue(1);
    benchmark::DoNotOptimize(future.Get());
  }
}
void BM_StdPromiseAndFuture(benchmark::State& state) {
  for (auto _ : state) {
    std::promise<int> promise;
    std::future<int> future = promise.get_future();
    promise.set_value(1);
    benchmark::DoNotOptimize(future.get());
  }
}

void BM_Then(benchmark::State& state) {
  for (auto _ : state) {
    Promise<int> promise;
    Future<int> future = promise.GetFuture().Then([](int&& v) { return v + 1; });
    promise.SetValue(1);
    benchmark::DoNotOptimize(future.Get());
  }
}

void BM_WakeByPromise(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    Promise<bool> ping;
    Promise<bool> pong;
    // false: the end.
    weft::Fiber partner([&, next = ping.GetFuture()]() mutable {
      while (next.Get()) {
        ping = Promise<bool>();
        next = ping.GetFuture();
        pong.SetValue(true);
      }
    });
    for (auto _ : state) {
      pong = Promise<bool>();
      Future<bool> answer = pong.GetFuture();
      ping.SetValue(true);
      benchmark::DoNotOptimize(answer.Get());
    }
    ping.SetValue(false);
    partner.Join();
  });
}

void BM_AsyncAndGet(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) benchmark::DoNotOptimize(weft::Async([] { return 1; }).Get());
  });
}
void BM_StdAsyncAndGet(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(std::async(std::launch::async, [] { return 1; }).get());
}

constexpr int kFunctions = 16;

void BM_CollectAll(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    const std::vector<int (*)()> functions(kFunctions, [] { return 1; });
    for (auto _ : state) benchmark::DoNotOptimize(weft::CollectAll(functions));
  });
}
void BM_StdAsyncAll(benchmark::State& state) {
  for (auto _ : state) {
    std::vector<std::future<int>> all;
    for (int i = 0; i < kFunctions; ++i) all.push_back(std::async(std::launch::async, [] { return 1; }));
    for (auto& one : all) benchmark::DoNotOptimize(one.get());
  }
}

BENCHMARK(BM_PromiseAndFuture);
BENCHMARK(BM_StdPromiseAndFuture);
BENCHMARK(BM_Then);
BENCHMARK(BM_WakeByPromise)->Apply(OnSomeWorkers);
BENCHMARK(BM_AsyncAndGet)->Apply(OnSomeWorkers);
BENCHMARK(BM_StdAsyncAndGet)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_CollectAll)->Apply(OnSomeWorkers);
BENCHMARK(BM_StdAsyncAll)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
