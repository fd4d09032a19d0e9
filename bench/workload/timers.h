// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// timers: one fiber sets 1,000,000 one-shot timers that are due in 10 to 20 s, then cancels them all. ns_set and
// ns_cancel are wall time per timer. None may fire.
//
// The first round pays for the memory of the timers, later ones find it warm.
//
// timers_stall: the same once, in a fresh process, reading the clock after each timer. stall_us is the longest time for
// which the setter stood still, for whatever reason (memory, a lock, another thread on its CPU); one timer in 10,000
// exceeds stall_p9999_us.
#ifndef WEFT_BENCH_WORKLOAD_TIMERS_H_
#define WEFT_BENCH_WORKLOAD_TIMERS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <random>
#include <vector>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

template <class Runtime>
void RunTimers(Round& round) {
  const auto timers = static_cast<std::size_t>(round.Scaled(1'000'000));
  std::minstd_rand random(1);
  std::uniform_int_distribution<std::int64_t> ahead_ns(10'000'000'000, 20'000'000'000);
  std::vector<std::chrono::nanoseconds> ahead(timers);
  for (std::chrono::nanoseconds& one : ahead) one = std::chrono::nanoseconds(ahead_ns(random));
  std::vector<typename Runtime::TimerId> ids(timers);

  Runtime::RunInside([&] {
    std::atomic<std::int64_t> fired = 0;
    const auto now = std::chrono::steady_clock::now();
    Stopwatch set;
    for (std::size_t i = 0; i < timers; ++i) {
      ids[i] = Runtime::SetTimer(now + ahead[i], [&fired] { fired.fetch_add(1, std::memory_order_relaxed); });
    }
    round.Report("ns_set", set.NanosecondsPer(static_cast<std::int64_t>(timers)), "ns");
    Require(set.Seconds() < 9, "all timers are set before the first is due");
    Stopwatch cancel;
    for (typename Runtime::TimerId id : ids) Runtime::CancelTimer(id);
    round.Report("ns_cancel", cancel.NanosecondsPer(static_cast<std::int64_t>(timers)), "ns");
    Require(fired.load() == 0, "no cancelled timer fired");
  });
}

template <class Runtime>
void RunTimersStall(Round& round) {
  const auto timers = static_cast<std::size_t>(round.Scaled(1'000'000));
  std::vector<typename Runtime::TimerId> ids(timers);
  std::vector<std::int64_t> took_ns(timers, 1);  // Touched: its own memory is no part of the figure.

  Runtime::RunInside([&] {
    std::atomic<std::int64_t> fired = 0;
    const auto due = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    auto before = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < timers; ++i) {
      ids[i] = Runtime::SetTimer(due, [&fired] { fired.fetch_add(1, std::memory_order_relaxed); });
      const auto now = std::chrono::steady_clock::now();
      took_ns[i] = std::chrono::nanoseconds(now - before).count();
      before = now;
    }
    for (typename Runtime::TimerId id : ids) Runtime::CancelTimer(id);
    Require(fired.load() == 0, "no cancelled timer fired");
  });
  std::sort(took_ns.begin(), took_ns.end());
  round.Report("stall_us", static_cast<double>(took_ns.back()) * 1e-3, "us");
  round.Report("stall_p9999_us", static_cast<double>(took_ns[timers - 1 - timers / 10'000]) * 1e-3, "us");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_TIMERS_H_
