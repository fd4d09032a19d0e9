// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// task, async: one fiber starts 1,000,000 fibers that return a number each, in batches of 1,000, and takes the results
// of each batch (ns_per_task); then it starts 200,000 of them and takes each result at once (ns_per_task_alone). The
// sum is checked. `task` owns the fibers by handles, `async` has futures of their results.
//
// scope: one fiber starts 1,000,000 no-op fibers in batches of 1,000, by turns as children of a scope, for which it
// waits (ns_per_child), and detached, waiting on a latch (ns_per_detached).
//
// cancel: fibers wait for an event that never comes, and are cancelled: time from then until all have ended, by fibers.
// One of them, 50,000 times (ns_per_cancel), and 100 of them, 2,000 times (ns_per_cancel_of_100).
#ifndef WEFT_BENCH_WORKLOAD_TASKS_H_
#define WEFT_BENCH_WORKLOAD_TASKS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/spawn.h"

namespace weft::bench {

// start(f): a handle whose Get() is f()'s result.
template <class Runtime, class Start>
void RunTasks(Round& round, Start start) {
  const std::int64_t tasks = round.Scaled(1'000'000, kSpawnBatch, Runtime::kSpawnDivisor);
  const std::int64_t alone = round.Scaled(200'000, 1, Runtime::kSpawnDivisor);
  const auto start_numbered = [start](std::int64_t i) { return start([i] { return i; }); };
  Runtime::RunInside([&] {
    std::int64_t sum = 0;
    std::vector<decltype(start_numbered(0))> batch;
    batch.reserve(kSpawnBatch);
    Stopwatch watch;
    for (std::int64_t started = 0; started < tasks; started += kSpawnBatch) {
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) batch.push_back(start_numbered(started + i));
      for (auto& task : batch) sum += task.Get();
      batch.clear();
    }
    round.Report("ns_per_task", watch.NanosecondsPer(tasks), "ns");
    Require(sum == tasks * (tasks - 1) / 2, "every task gave its result");
    sum = 0;
    watch = Stopwatch();
    for (std::int64_t i = 0; i < alone; ++i) sum += start_numbered(i).Get();
    round.Report("ns_per_task_alone", watch.NanosecondsPer(alone), "ns");
    Require(sum == alone * (alone - 1) / 2, "every task gave its result");
  });
}

template <class Runtime>
void RunTask(Round& round) {
  RunTasks<Runtime>(round, [](auto f) { return Runtime::StartTask(f); });
}

template <class Runtime>
void RunAsync(Round& round) {
  RunTasks<Runtime>(round, [](auto f) { return Runtime::StartAsync(f); });
}

template <class Runtime>
void RunScope(Round& round) {
  const std::int64_t fibers = round.Scaled(1'000'000, kSpawnBatch, Runtime::kSpawnDivisor);
  Runtime::RunInside([&] {
    double in_scope = 0;
    double detached = 0;
    for (std::int64_t started = 0; started < fibers; started += kSpawnBatch) {
      {
        Stopwatch watch;
        typename Runtime::Scope scope;
        for (std::int64_t i = 0; i < kSpawnBatch; ++i) Require(scope.Spawn([] {}), "a child can be started");
        scope.Wait();
        in_scope += watch.Seconds();
      }
      Stopwatch watch;
      typename Runtime::Latch batch(kSpawnBatch);
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) {
        Require(Runtime::Spawn([&batch] { batch.CountDown(); }), "a fiber can be started from a fiber");
      }
      batch.Wait();
      detached += watch.Seconds();
    }
    round.Report("ns_per_child", in_scope * 1e9 / static_cast<double>(fibers), "ns");
    round.Report("ns_per_detached", detached * 1e9 / static_cast<double>(fibers), "ns");
  });
}

template <class Runtime>
double SecondsToCancel(std::int64_t fibers) {
  typename Runtime::Event never;
  std::atomic<std::int64_t> waiting = 0;
  typename Runtime::Scope scope;
  for (std::int64_t i = 0; i < fibers; ++i) {
    auto child = [&] {
      waiting.fetch_add(1, std::memory_order_relaxed);
      never.Wait();
    };
    Require(scope.Spawn(child), "a child can be started");
  }
  while (waiting.load(std::memory_order_relaxed) != fibers) Runtime::Yield();
  Runtime::Yield();  // The last of them may not wait yet.
  Stopwatch watch;
  scope.Cancel();
  scope.Wait();
  return watch.Seconds();
}

template <class Runtime>
void RunCancel(Round& round) {
  Runtime::RunInside([&] {
    const auto measure = [&](std::int64_t fibers, std::int64_t times, const char* figure) {
      double seconds = 0;
      for (std::int64_t i = 0; i < times; ++i) seconds += SecondsToCancel<Runtime>(fibers);
      round.Report(figure, seconds * 1e9 / static_cast<double>(fibers * times), "ns");
    };
    measure(1, round.Scaled(50'000), "ns_per_cancel");
    measure(100, round.Scaled(2'000), "ns_per_cancel_of_100");
  });
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_TASKS_H_
