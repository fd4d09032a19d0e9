// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What fibers that compute for long do to others while no worker is idle.
//
//   left_behind  eight fibers per worker yield for ever; another one starts 20 short fibers and computes for 20 ms, 50
//                times. last_*: the time until the last of the 20 has begun, in us.
//   fair_turns   100 fibers yield for ever, 100 others compute for 1 ms of CPU time and yield, for 2 s. turns_ratio:
//                the most turns of a fiber divided by the least. gap_ms: the longest wait between two turns.
#ifndef WEFT_BENCH_WORKLOAD_FAIRNESS_H_
#define WEFT_BENCH_WORKLOAD_FAIRNESS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"
#include "weft/bench/workload/wake.h"

namespace weft::bench {

inline void ComputeFor(std::chrono::nanoseconds duration) {
  const auto cpu_time = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto until = cpu_time() + duration;
  while (cpu_time() < until) {
  }
}

template <class Runtime>
void RunLeftBehind(Round& round) {
  using Clock = std::chrono::steady_clock;
  constexpr std::int64_t kShort = 20;
  constexpr std::chrono::milliseconds kLong{20};
  const auto start = [](auto f) { Require(Runtime::Spawn(f), "a fiber can be started"); };
  const int yielders = 8 * round.workers();
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> ended = 0;
  for (int i = 0; i < yielders; ++i) {
    start([&] {
      while (!stop.load(std::memory_order_relaxed)) Runtime::Yield();
      ended.fetch_add(1, std::memory_order_release);
    });
  }
  std::vector<double> waits;
  for (std::int64_t times = round.Scaled(50); times > 0; --times) {
    std::this_thread::sleep_for(kLong);
    std::atomic<std::int64_t> begun = 0;
    std::atomic<double> last = -1;
    std::atomic<std::int64_t> done = 0;
    start([&] {
      const auto then = Clock::now();
      for (std::int64_t i = 0; i < kShort; ++i) {
        start([&, then] {
          if (begun.fetch_add(1) == kShort - 1) last = MicrosecondsSince(then);
          done.fetch_add(1, std::memory_order_release);
        });
      }
      ComputeFor(kLong);
      done.fetch_add(1, std::memory_order_release);
    });
    AwaitCount(done, kShort + 1);
    Require(last >= 0, "the short fibers ran");
    waits.push_back(last);
  }
  stop = true;
  AwaitCount(ended, yielders);
  ReportPercentiles(round, "last_", waits);
}

template <class Runtime>
void RunFairTurns(Round& round) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t kOfEach = 100;
  const std::chrono::milliseconds duration(round.Scaled(2'000));
  struct Own {
    std::int64_t turns = 0;
    Clock::duration longest_gap{};
  };
  std::vector<Own> own(2 * kOfEach);
  std::atomic<std::int64_t> begun = 0;
  std::atomic<std::int64_t> ended = 0;
  std::atomic<bool> all_are_there = false;
  std::atomic<bool> stop = false;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const auto body = [&, i] {
      begun.fetch_add(1, std::memory_order_release);
      do {
        if (i % 2 != 0) ComputeFor(std::chrono::milliseconds(1));
        const bool counts = all_are_there.load(std::memory_order_relaxed);
        const auto before = Clock::now();
        Runtime::Yield();
        if (!counts) continue;
        ++own[i].turns;
        own[i].longest_gap = std::max(own[i].longest_gap, Clock::now() - before);
      } while (!stop.load(std::memory_order_relaxed) || own[i].turns == 0);
      ended.fetch_add(1, std::memory_order_release);
    };
    Require(Runtime::Spawn(body), "a fiber can be started");
  }
  AwaitCount(begun, std::int64_t{2 * kOfEach});
  all_are_there = true;
  std::this_thread::sleep_for(duration);
  stop = true;
  AwaitCount(ended, std::int64_t{2 * kOfEach});
  const auto [least, most] =
      std::minmax_element(own.begin(), own.end(), [](const Own& a, const Own& b) { return a.turns < b.turns; });
  const auto gap = std::max_element(own.begin(), own.end(),
                                    [](const Own& a, const Own& b) { return a.longest_gap < b.longest_gap; });
  round.Remark("turns: " + std::to_string(least->turns) + " to " + std::to_string(most->turns));
  round.Report("turns_ratio", static_cast<double>(most->turns) / static_cast<double>(least->turns), "ratio");
  round.Report("gap_ms", std::chrono::duration<double, std::milli>(gap->longest_gap).count(), "ms");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_FAIRNESS_H_
