// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// lopsided: one fiber starts 1,000 fibers that compute for 100 us of CPU time each, and waits for them; with --groups=2
// all of them in one group.
//
//   alone_ms       nothing else runs
//   beside_ms      beside as many computing plain threads as there are processors
//   fed_beside_ms  the same, with at most three fibers alive, of 50 us each; while there are three, the fiber that
//                  starts them sleeps for 50 us at a time: workers run out of work again and again
//
// If all w workers take part, alone_ms is 100 / w, and beside_ms 100 / w * (w + n) / n on n processors, if w <= n and
// the kernel shares fairly: 50 and 100 ms for two on two. A worker that does not take part, or that the kernel lets
// wait, makes it longer. The least for fed_beside_ms is half of beside_ms.
#ifndef WEFT_BENCH_WORKLOAD_LOPSIDED_H_
#define WEFT_BENCH_WORKLOAD_LOPSIDED_H_

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

// Of the thread, so that preempted fibers have as much to do as others.
inline void SpendCpuTime(std::int64_t nanoseconds) {
  const auto now = [] {
    timespec time{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  };
  for (const std::int64_t end = now() + nanoseconds; now() < end;) {
  }
}

// Threads that compute until it is destroyed.
class BusyThreads {
 public:
  explicit BusyThreads(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        while (!stop_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~BusyThreads() {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// `alive`: at most so many at a time.
template <class Runtime>
double LopsidedMilliseconds(std::int64_t fibers, std::int64_t nanoseconds, std::int64_t alive) {
  double milliseconds = 0;
  Runtime::RunInside([&] {
    Stopwatch watch;
    typename Runtime::Latch done(fibers);
    std::atomic<std::int64_t> ended = 0;
    for (std::int64_t i = 0; i < fibers; ++i) {
      while (i - ended.load(std::memory_order_relaxed) >= alive) Runtime::SleepFor(std::chrono::microseconds(50));
      auto compute = [&done, &ended, nanoseconds] {
        SpendCpuTime(nanoseconds);
        ended.fetch_add(1, std::memory_order_relaxed);
        done.CountDown();
      };
      Require(Runtime::Spawn(compute), "a fiber can be started from a fiber");
    }
    done.Wait();
    milliseconds = watch.Milliseconds();
  });
  return milliseconds;
}

template <class Runtime>
void RunLopsided(Round& round) {
  const std::int64_t fibers = round.Scaled(1'000);
  round.Report("alone_ms", LopsidedMilliseconds<Runtime>(fibers, 100'000, fibers), "ms");
  const BusyThreads threads(std::thread::hardware_concurrency());
  round.Report("beside_ms", LopsidedMilliseconds<Runtime>(fibers, 100'000, fibers), "ms");
  round.Report("fed_beside_ms", LopsidedMilliseconds<Runtime>(fibers, 50'000, 3), "ms");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_LOPSIDED_H_
