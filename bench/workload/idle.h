// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// idle:     3 s of nothing, the runtime being up.
// trickle:  a plain thread starts a no-op fiber every 100 us for 3 s.
//
// cpu_ms_per_s is CPU time of the whole process (kernel and user, the starting thread included) by wall time.
#ifndef WEFT_BENCH_WORKLOAD_IDLE_H_
#define WEFT_BENCH_WORKLOAD_IDLE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"
#include "weft/bench/workload/wake.h"

namespace weft::bench {

inline constexpr std::chrono::microseconds kTricklePeriod{100};

template <class Runtime>
void RunIdle(Round& round) {
  const std::chrono::milliseconds length(round.Scaled(3'000));
  // Lets the aftermath of the runtime's start settle.
  std::this_thread::sleep_for(length / 3);
  Stopwatch watch;
  const double before = ProcessCpuMilliseconds();
  std::this_thread::sleep_for(length);
  round.Report("cpu_ms_per_s", (ProcessCpuMilliseconds() - before) / watch.Seconds(), "ms/s");
}

template <class Runtime>
void RunTrickle(Round& round) {
  const std::int64_t starts = round.Scaled(30'000);
  std::atomic<std::int64_t> done = 0;
  Stopwatch watch;
  const double before = ProcessCpuMilliseconds();
  auto next = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < starts; ++i) {
    next += kTricklePeriod;
    std::this_thread::sleep_until(next);
    Require(Runtime::Spawn([&done] { done.fetch_add(1, std::memory_order_relaxed); }), "a fiber can be started");
  }
  const double used = ProcessCpuMilliseconds() - before;
  round.Report("cpu_ms_per_s", used / watch.Seconds(), "ms/s");
  AwaitCount(done, starts);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_IDLE_H_
