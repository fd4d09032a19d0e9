// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// spawn:      one fiber starts 1,000,000 no-op detached fibers in batches of 1,000 and waits for each batch on a latch.
// spawn_ext:  two plain threads each start 250,000 the same way and wait for each batch on an atomic counter.
//
// ns_per_fiber is wall time by fibers: start, first run, end and reuse of the stack, and the latch's decrement.
#ifndef WEFT_BENCH_WORKLOAD_SPAWN_H_
#define WEFT_BENCH_WORKLOAD_SPAWN_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

inline constexpr std::int64_t kSpawnBatch = 1'000;

template <class Runtime>
void RunSpawn(Round& round) {
  const std::int64_t fibers = round.Scaled(1'000'000, kSpawnBatch, Runtime::kSpawnDivisor);
  Runtime::RunInside([&] {
    Stopwatch watch;
    for (std::int64_t started = 0; started < fibers; started += kSpawnBatch) {
      typename Runtime::Latch batch(kSpawnBatch);
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) {
        Require(Runtime::Spawn([&batch] { batch.CountDown(); }), "a fiber can be started from a fiber");
      }
      batch.Wait();
    }
    round.Report("ns_per_fiber", watch.NanosecondsPer(fibers), "ns");
  });
}

struct alignas(64) PaddedCounter {
  std::atomic<std::int64_t> value = 0;
};

template <class Runtime>
void RunSpawnExternal(Round& round) {
  const std::int64_t fibers = round.Scaled(250'000, kSpawnBatch, Runtime::kSpawnDivisor);
  // Static: the last fiber of all may still be inside notify_one() when its thread has gone on.
  static PaddedCounter done[2];
  auto start_all = [fibers](std::atomic<std::int64_t>& count) {
    count.store(0, std::memory_order_relaxed);
    for (std::int64_t started = 0; started < fibers; started += kSpawnBatch) {
      const std::int64_t target = started + kSpawnBatch;
      for (std::int64_t i = 0; i < kSpawnBatch; ++i) {
        auto no_op = [&count, target] {
          // The last of a batch wakes the thread: polling would compete with the workers for the cores.
          if (count.fetch_add(1, std::memory_order_acq_rel) + 1 == target) count.notify_one();
        };
        Require(Runtime::Spawn(no_op), "a fiber can be started from a plain thread");
      }
      for (std::int64_t now; (now = count.load(std::memory_order_acquire)) != target;) count.wait(now);
    }
  };
  Stopwatch watch;
  std::thread one(start_all, std::ref(done[0].value));
  std::thread two(start_all, std::ref(done[1].value));
  one.join();
  two.join();
  round.Report("ns_per_fiber", watch.NanosecondsPer(2 * fibers), "ns");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_SPAWN_H_
