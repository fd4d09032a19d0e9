// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// std::thread as a runtime: a thread for each fiber. Shortens workloads that start or block often.
#ifndef WEFT_BENCH_WORKLOAD_STD_THREAD_RUNTIME_H_
#define WEFT_BENCH_WORKLOAD_STD_THREAD_RUNTIME_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <semaphore>
#include <thread>
#include <utility>

#include "weft/bench/workload/peer_sync.h"

namespace weft::bench {

struct StdThreadRuntime {
  static constexpr const char* kName = "std_thread";
  static constexpr std::int64_t kSpawnDivisor = 50;
  static constexpr std::int64_t kBlockDivisor = 20;
  static constexpr std::int64_t kLiveDivisor = 100;
  static constexpr bool kStartsFromThreads = true;
  static constexpr bool kLightWeight = false;
  static constexpr bool kHasYield = true;
  static constexpr bool kHasTimers = false;
  static constexpr bool kHasChannel = false;

  using Mutex = std::mutex;
  using ConditionVariable = std::condition_variable;
  using Latch = PeerLatch<Mutex, ConditionVariable>;
  using Event = PeerEvent<Mutex, ConditionVariable>;
  using Semaphore = std::counting_semaphore<>;

  static void Start(int, int) {}
  static void Stop() {}

  template <class F>
  static bool Spawn(F&& f) {
    std::thread(std::forward<F>(f)).detach();
    return true;
  }

  template <class F>
  static void RunInside(F&& f) {
    f();
  }

  static void Yield() { std::this_thread::yield(); }
  static void SleepFor(std::chrono::nanoseconds duration) { std::this_thread::sleep_for(duration); }
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_STD_THREAD_RUNTIME_H_
