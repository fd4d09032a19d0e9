// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_WakeSleeper: the time from just before the wake to the first instruction of a thread that sleeps in the kernel,
// both threads bound to one core or to two. It is the floor under every wake of an idle worker. `call_us` is what the
// waker pays for the call (on one core that includes whatever the kernel lets the sleeper run first). Weft derives from
// it that a worker should spin for about one wake before it sleeps, and that a wake costs as much as several dozen
// switches.
// BM_Trickle: a thread only wakes a sleeper every 100 us: `cpu_ms_per_s` of both is the floor under `workload
// --workload=trickle` of any runtime whose workers sleep.
// BM_NotifyNobody: the same call when nobody sleeps. It must not enter the kernel.
// Twins: std::condition_variable with its mutex, and std::binary_semaphore.

#include <benchmark/benchmark.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <ctime>
#include <mutex>
#include <semaphore>
#include <thread>

#include "weft/base/thread/parker.h"

namespace {

using Clock = std::chrono::steady_clock;

class WeftParker {
 public:
  void Wait() { parker_.Park(); }
  void Wake() { parker_.Unpark(); }

 private:
  weft::base::Parker parker_;
};

class StdConditionVariable {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
    set_ = false;
  }
  void Wake() {
    {
      std::scoped_lock lock(mutex_);
      set_ = true;
    }
    changed_.notify_one();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

class StdSemaphore {
 public:
  void Wait() { semaphore_.acquire(); }
  void Wake() { semaphore_.release(); }

 private:
  std::binary_semaphore semaphore_{0};
};

void BindTo(unsigned cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

template <class Sleeper>
void BM_WakeSleeper(benchmark::State& state) {
  const auto sleeper_cpu = static_cast<unsigned>(state.range(0));
  if (sleeper_cpu >= std::thread::hardware_concurrency()) {
    state.SkipWithError("there is no second core");
    return;
  }
  cpu_set_t former;
  pthread_getaffinity_np(pthread_self(), sizeof(former), &former);
  BindTo(0);

  Sleeper sleeper;
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> woken_at = 0;  // 0: not yet
  std::thread thread([&] {
    BindTo(sleeper_cpu);
    for (;;) {
      sleeper.Wait();
      const Clock::time_point now = Clock::now();
      if (stop.load()) return;
      woken_at.store(now.time_since_epoch().count());
    }
  });

  double call_seconds = 0;
  for (auto _ : state) {
    // Long enough for the sleeper to be asleep, and for its core to have gone idle.
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    woken_at.store(0);
    const Clock::time_point start = Clock::now();
    sleeper.Wake();
    call_seconds += std::chrono::duration<double>(Clock::now() - start).count();
    std::int64_t woken = 0;
    while ((woken = woken_at.load()) == 0) {
      if (sleeper_cpu == 0) std::this_thread::yield();
    }
    state.SetIterationTime(std::chrono::duration<double>(Clock::time_point(Clock::duration(woken)) - start).count());
  }
  state.counters["call_us"] = call_seconds * 1e6 / static_cast<double>(state.iterations());

  stop.store(true);
  sleeper.Wake();
  thread.join();
  pthread_setaffinity_np(pthread_self(), sizeof(former), &former);
}

template <class Sleeper>
void BM_Trickle(benchmark::State& state) {
  Sleeper sleeper;
  std::atomic<bool> stop = false;
  std::thread thread([&] {
    while (!stop.load()) sleeper.Wait();
  });
  const std::clock_t before = std::clock();
  const Clock::time_point start = Clock::now();
  Clock::time_point next = start;
  for (auto _ : state) {
    next += std::chrono::microseconds(100);
    std::this_thread::sleep_until(next);
    sleeper.Wake();
  }
  const double cpu_ms = static_cast<double>(std::clock() - before) * 1000 / CLOCKS_PER_SEC;
  state.counters["cpu_ms_per_s"] = cpu_ms / std::chrono::duration<double>(Clock::now() - start).count();
  stop.store(true);
  sleeper.Wake();
  thread.join();
}

template <class Sleeper>
void BM_NotifyNobody(benchmark::State& state) {
  Sleeper sleeper;
  for (auto _ : state) {
    sleeper.Wake();
    sleeper.Wait();
  }
}

BENCHMARK(BM_WakeSleeper<WeftParker>)->ArgName("sleeper_cpu")->Arg(0)->Arg(1)->UseManualTime()->Iterations(5000);
BENCHMARK(BM_WakeSleeper<StdConditionVariable>)
    ->ArgName("sleeper_cpu")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Iterations(5000);
BENCHMARK(BM_WakeSleeper<StdSemaphore>)->ArgName("sleeper_cpu")->Arg(0)->Arg(1)->UseManualTime()->Iterations(5000);
BENCHMARK(BM_Trickle<WeftParker>)->Iterations(30000)->UseRealTime();
BENCHMARK(BM_Trickle<StdConditionVariable>)->Iterations(30000)->UseRealTime();
BENCHMARK(BM_NotifyNobody<WeftParker>);
BENCHMARK(BM_NotifyNobody<StdConditionVariable>);
BENCHMARK(BM_NotifyNobody<StdSemaphore>);

}  // namespace
