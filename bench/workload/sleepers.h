// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// sleepers: 100,000 fibers sleep 100 ms each. ms is wall time from the first start to the last end; late_* is how long
// after its deadline a fiber ran again. Running early is an error.
//
// Every fiber needs its own stack here. ms_cold is the first round, whose stacks have never been touched (the kernel
// makes 100,000 pages while it runs); the other rounds reuse them.
#ifndef WEFT_BENCH_WORKLOAD_SLEEPERS_H_
#define WEFT_BENCH_WORKLOAD_SLEEPERS_H_

#include <chrono>
#include <cstdint>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"

namespace weft::bench {

inline constexpr std::chrono::milliseconds kSleep{100};

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

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_SLEEPERS_H_
