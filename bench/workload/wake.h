// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// wake:       a plain thread, 20,000 times: sleeps 50 us, starts a fiber, which notes when it first runs.
// wake_park:  the same with a fiber that is parked on an event and set off by it.
//
// Percentiles of the time from just before the start (the set) to the first instruction of the fiber, in us. The
// workers are idle then, so this is the wake-up of a sleeping thread plus whatever the runtime adds.

#ifndef WEFT_BENCH_WORKLOAD_WAKE_H_
#define WEFT_BENCH_WORKLOAD_WAKE_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"

namespace weft::bench {

inline constexpr std::chrono::microseconds kWakeGap{50};

inline double MicrosecondsSince(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - then).count();
}

// Waits without a wake-up of its own: the workers shall find nothing to do but what is measured.
inline void AwaitCount(const std::atomic<std::int64_t>& count, std::int64_t wanted) {
  while (count.load(std::memory_order_acquire) < wanted) std::this_thread::sleep_for(kWakeGap);
}

template <class Runtime>
void RunWake(Round& round) {
  const std::int64_t wakes = round.Scaled(20'000);
  std::vector<double> latency(static_cast<std::size_t>(wakes), -1);
  std::atomic<std::int64_t> done = 0;
  for (double& own : latency) {
    std::this_thread::sleep_for(kWakeGap);
    const auto start = std::chrono::steady_clock::now();
    auto noter = [start, &own, &done] {
      own = MicrosecondsSince(start);
      done.fetch_add(1, std::memory_order_release);
    };
    Require(Runtime::Spawn(noter), "a fiber can be started from a plain thread");
  }
  AwaitCount(done, wakes);
  for (double own : latency) Require(own >= 0, "every fiber ran once");
  ReportPercentiles(round, "", latency);
}

template <class Runtime>
void RunWakeParked(Round& round) {
  const std::int64_t wakes = round.Scaled(20'000);
  std::vector<double> latency;
  latency.reserve(static_cast<std::size_t>(wakes));
  typename Runtime::Event event;
  std::chrono::steady_clock::time_point start;  // Handed over with the event.
  std::atomic<std::int64_t> done = 0;
  auto sleeper = [&] {
    for (std::int64_t i = 0; i < wakes; ++i) {
      event.Wait();
      latency.push_back(MicrosecondsSince(start));
      event.Reset();
      done.fetch_add(1, std::memory_order_release);
    }
  };
  Require(Runtime::Spawn(sleeper), "a fiber can be started from a plain thread");
  for (std::int64_t i = 0; i < wakes; ++i) {
    std::this_thread::sleep_for(kWakeGap);
    AwaitCount(done, i);
    start = std::chrono::steady_clock::now();
    event.Set();
  }
  AwaitCount(done, wakes);
  Require(static_cast<std::int64_t>(latency.size()) == wakes, "the fiber was woken once for each set");
  ReportPercentiles(round, "", latency);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_WAKE_H_
