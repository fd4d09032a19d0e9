// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// sleepers: 100,000 fibers sleep 100 ms each. ms is wall time from the first start to the last end; late_* is how long
// after its deadline a fiber ran again. Running early is an error.
// sparse_sleepers: in each group one fiber that stays there sleeps 200 us, again and again, for 2 s, and nothing else
// runs. us_between_sleeps is wall time by the sleeps of all; the kernel's switches are those of all threads.
//
// Every fiber of sleepers needs its own stack. ms_cold is the first round, whose stacks have never been touched (the
// kernel makes 100,000 pages while it runs); the other rounds reuse them.
#ifndef WEFT_BENCH_WORKLOAD_SLEEPERS_H_
#define WEFT_BENCH_WORKLOAD_SLEEPERS_H_

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"

namespace weft::bench {

inline constexpr std::chrono::milliseconds kSleep{100};
inline constexpr std::chrono::microseconds kSparseSleep{200};

template <class Runtime>
void RunSleepers(Round& round) {
  const std::int64_t fibers = round.Scaled(100'000, 1, Runtime::kLiveDivisor);
  std::vector<double> late_us(static_cast<std::size_t>(fibers));
  Runtime::RunInside([&] {
    Stopwatch watch;
    typename Runtime::Latch done(fibers);
    for (double& own : late_us) {
      auto sleeper = [&own, &done] {
        const auto deadline = std::chrono::steady_clock::now() + kSleep;
        Runtime::SleepFor(kSleep);
        own = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - deadline).count();
        done.CountDown();
      };
      Require(Runtime::Spawn(sleeper), "a sleeping fiber can be started");
    }
    done.Wait();
    const double ms = watch.Milliseconds();
    static double ms_of_first_round = ms;
    round.Report("ms", ms, "ms");
    round.Report("ms_cold", ms_of_first_round, "ms");
  });
  for (double late : late_us) Require(late >= 0, "no fiber woke before its deadline");
  ReportPercentiles(round, "late_", late_us);
}

// Of all threads so far, voluntary and others.
inline double ContextSwitches() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_nvcsw + used.ru_nivcsw);
}

template <class Runtime>
void RunSparseSleepers(Round& round) {
  struct alignas(64) Sleeper {
    std::vector<double> late_us;
  };
  const auto groups = static_cast<std::size_t>(Runtime::GroupCount());
  const std::chrono::milliseconds length(round.Scaled(2'000));
  const auto sleepers = std::make_unique<Sleeper[]>(groups);
  std::atomic<bool> stop = false;
  typename Runtime::Latch done(static_cast<std::int64_t>(groups));
  for (std::size_t g = 0; g < groups; ++g) {
    Sleeper* const self = &sleepers[g];
    self->late_us.reserve(static_cast<std::size_t>(length / kSparseSleep) + 1);
    Runtime::SpawnBoundTo(static_cast<int>(g), [self, &stop, &done] {
      while (!stop.load(std::memory_order_relaxed)) {
        const auto deadline = std::chrono::steady_clock::now() + kSparseSleep;
        Runtime::SleepFor(kSparseSleep);
        self->late_us.push_back(
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - deadline).count());
      }
      done.CountDown();
    });
  }
  const double cpu_before = ProcessCpuMilliseconds();
  const double switches_before = ContextSwitches();
  const Stopwatch watch;
  std::this_thread::sleep_for(length);
  stop.store(true, std::memory_order_relaxed);
  done.Wait();
  const double seconds = watch.Seconds();
  const double cpu_us = (ProcessCpuMilliseconds() - cpu_before) * 1'000;
  const double switches = ContextSwitches() - switches_before;
  std::vector<double> late_us;
  for (std::size_t g = 0; g < groups; ++g) {
    late_us.insert(late_us.end(), sleepers[g].late_us.begin(), sleepers[g].late_us.end());
  }
  const auto sleeps = static_cast<double>(late_us.size());
  round.Report("us_between_sleeps", seconds * 1e6 / sleeps, "us");
  round.Report("cpu_us_per_sleep", cpu_us / sleeps, "us");
  round.Report("switches_per_sleep", switches / sleeps, "");
  ReportPercentiles(round, "late_", late_us);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_SLEEPERS_H_
