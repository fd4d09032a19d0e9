// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// start_beside: 2,000 times, a plain thread sleeps 100 us and starts a fiber, which notes when it first runs. All
// workers are busy:
//
//   yield_*      with eight fibers per worker that yield for ever
//   pingpong_*   with a pair of fibers per worker that hand off to each other for ever
//   pool_*       the yardstick: a pool of as many threads with one std::deque under a std::mutex and a condition
//                variable, busy with eight tasks per thread that post themselves again; it starts a task
//
// Percentiles of the time from just before the start to the first instruction, in us. With as many workers as
// processors they show how often a worker checks for fibers from outside; with more (--workers=8 on two processors),
// how long a worker that the kernel has stopped holds up the fibers of others.
#ifndef WEFT_BENCH_WORKLOAD_START_BESIDE_H_
#define WEFT_BENCH_WORKLOAD_START_BESIDE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"
#include "weft/bench/workload/plain_pool.h"
#include "weft/bench/workload/wake.h"

namespace weft::bench {

// `start(f)` has f run by a busy worker.
template <class Start>
void MeasureStartsBeside(Round& round, const char* prefix, Start start) {
  constexpr std::chrono::microseconds kGap{100};
  const std::int64_t starts = round.Scaled(2'000);
  std::vector<double> latency(static_cast<std::size_t>(starts), -1);
  std::atomic<std::int64_t> done = 0;
  for (double& own : latency) {
    std::this_thread::sleep_for(kGap);
    const auto then = std::chrono::steady_clock::now();
    start([then, &own, &done] {
      own = MicrosecondsSince(then);
      done.fetch_add(1, std::memory_order_release);
    });
  }
  AwaitCount(done, starts);
  for (double own : latency) Require(own >= 0, "what was started ran");
  ReportPercentiles(round, prefix, latency);
}

template <class Runtime>
void RunStartBeside(Round& round) {
  const auto start = [](auto f) { Require(Runtime::Spawn(f), "a fiber can be started from a plain thread"); };
  const int yielders = 8 * round.workers();
  std::atomic<bool> stop = false;
  std::atomic<std::int64_t> ended = 0;
  for (int i = 0; i < yielders; ++i) {
    start([&] {
      while (!stop.load(std::memory_order_relaxed)) Runtime::Yield();
      ended.fetch_add(1, std::memory_order_release);
    });
  }
  MeasureStartsBeside(round, "yield_", start);
  stop = true;
  AwaitCount(ended, yielders);

  stop = false;
  ended = 0;
  struct Pair {
    typename Runtime::Event ping, pong;
  };
  const auto pairs = std::make_unique<Pair[]>(static_cast<std::size_t>(round.workers()));
  for (int i = 0; i < round.workers(); ++i) {
    Pair& pair = pairs[static_cast<std::size_t>(i)];
    const auto play = [&stop, &ended](typename Runtime::Event& own, typename Runtime::Event& other) {
      while (!stop.load(std::memory_order_relaxed)) {
        other.Set();
        own.Wait();
        own.Reset();
      }
      other.Set();
      ended.fetch_add(1, std::memory_order_release);
    };
    start([&pair, play] { play(pair.ping, pair.pong); });
    start([&pair, play] { play(pair.pong, pair.ping); });
  }
  MeasureStartsBeside(round, "pingpong_", start);
  stop = true;
  AwaitCount(ended, 2 * std::int64_t{round.workers()});

  PlainPool pool(round.workers());
  stop = false;
  ended = 0;
  std::function<void()> again = [&] {
    if (stop.load(std::memory_order_relaxed)) {
      ended.fetch_add(1, std::memory_order_release);
    } else {
      pool.Post(again);
    }
  };
  for (int i = 0; i < yielders; ++i) pool.Post(again);
  MeasureStartsBeside(round, "pool_", [&](auto f) { pool.Post(f); });
  stop = true;
  AwaitCount(ended, yielders);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_START_BESIDE_H_
