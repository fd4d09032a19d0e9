// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// wake:       a plain thread, 20,000 times: sleeps 50 us, starts a fiber, which notes when it first runs.
// wake_park:  the same with a fiber that is parked on an event and set off by it.
// wake_beside_threads:  both of them, and a std::thread that waits on a condition variable, 10 x 1,000 of each in turn
//             in one process, so that they can be compared whatever else the machine does (started_*, parked_*,
//             thread_*).
//
// Percentiles of the time from just before the start (the set) to the first instruction of the fiber, in us. The
// workers are idle then, so this is the wake-up of a sleeping thread plus whatever the runtime adds.

#ifndef WEFT_BENCH_WORKLOAD_WAKE_H_
#define WEFT_BENCH_WORKLOAD_WAKE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
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

// Each adds `wakes` latencies in us.
template <class Runtime>
void MeasureStarts(std::int64_t wakes, std::vector<double>* latency) {
  const std::size_t first = latency->size();
  latency->resize(first + static_cast<std::size_t>(wakes), -1);
  std::atomic<std::int64_t> done = 0;
  for (std::size_t i = first; i < latency->size(); ++i) {
    std::this_thread::sleep_for(kWakeGap);
    const auto start = std::chrono::steady_clock::now();
    auto noter = [start, &own = (*latency)[i], &done] {
      own = MicrosecondsSince(start);
      done.fetch_add(1, std::memory_order_release);
    };
    Require(Runtime::Spawn(noter), "a fiber can be started from a plain thread");
  }
  AwaitCount(done, wakes);
  for (double own : *latency) Require(own >= 0, "every fiber ran once");
}

// `sleeper_runs(f)` sets f going in the fiber or thread that is to be woken.
template <class Event, class SleeperRuns>
void MeasureSets(std::int64_t wakes, std::vector<double>* latency, SleeperRuns sleeper_runs) {
  const std::size_t first = latency->size();
  latency->reserve(first + static_cast<std::size_t>(wakes));
  Event event;
  std::chrono::steady_clock::time_point start;  // Handed over with the event.
  std::atomic<std::int64_t> done = 0;
  sleeper_runs([&, wakes] {
    for (std::int64_t i = 0; i < wakes; ++i) {
      event.Wait();
      latency->push_back(MicrosecondsSince(start));
      event.Reset();
      done.fetch_add(1, std::memory_order_release);
    }
  });
  for (std::int64_t i = 0; i < wakes; ++i) {
    std::this_thread::sleep_for(kWakeGap);
    AwaitCount(done, i);
    start = std::chrono::steady_clock::now();
    event.Set();
  }
  AwaitCount(done, wakes);
  Require(latency->size() == first + static_cast<std::size_t>(wakes), "the fiber was woken once for each set");
}

template <class Runtime>
void MeasureParked(std::int64_t wakes, std::vector<double>* latency) {
  MeasureSets<typename Runtime::Event>(wakes, latency, [](auto sleeper) {
    Require(Runtime::Spawn(sleeper), "a fiber can be started from a plain thread");
  });
}

template <class Runtime>
void RunWake(Round& round) {
  std::vector<double> latency;
  MeasureStarts<Runtime>(round.Scaled(20'000), &latency);
  ReportPercentiles(round, "", latency);
}

template <class Runtime>
void RunWakeParked(Round& round) {
  std::vector<double> latency;
  MeasureParked<Runtime>(round.Scaled(20'000), &latency);
  ReportPercentiles(round, "", latency);
}

// What threads have: a flag under a mutex and a condition variable that is notified after the unlock, by one thread for
// one thread.
class ThreadEvent {
 public:
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return set_; });
  }
  void Set() {
    {
      std::scoped_lock lock(mutex_);
      set_ = true;
    }
    changed_.notify_one();
  }
  void Reset() {
    std::scoped_lock lock(mutex_);
    set_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

template <class Runtime>
void RunWakeBesideThreads(Round& round) {
  constexpr int kParts = 10;
  const std::int64_t wakes = round.Scaled(1'000);
  std::vector<double> started;
  std::vector<double> parked;
  std::vector<double> threads;
  for (int part = 0; part < kParts; ++part) {
    MeasureStarts<Runtime>(wakes, &started);
    MeasureParked<Runtime>(wakes, &parked);
    std::thread thread;
    MeasureSets<ThreadEvent>(wakes, &threads, [&thread](auto sleeper) { thread = std::thread(sleeper); });
    thread.join();
  }
  ReportPercentiles(round, "started_", started);
  ReportPercentiles(round, "parked_", parked);
  ReportPercentiles(round, "thread_", threads);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_WAKE_H_
