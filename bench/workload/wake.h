// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// wake:       20,000 times, a plain thread sleeps 50 us and starts a fiber, which notes when it first runs.
// wake_park:  the same, but the thread sets an event on which the fiber is parked.
// wake_beside_threads:  both of them, a std::thread that waits on a condition variable, and a task posted to a pool of
//                       as many threads as there are workers, 10 x 1,000 of each in turn in one process, so that they
//                       can be compared whatever else the machine does (started_*, parked_*, thread_*, pool_*).
// wake_beside_busy_thread:  the same four, 4 x 1,000 of each, but the plain thread never sleeps: it keeps a CPU busy
//                           even while it waits, as a thread does that computes or polls for an answer.
//
// In the last two, thread_* and pool_* differ by the machine's noise and the pool's overhead. If their p999 is far
// apart it says nothing of the others either: it is the fourth worst of 4,000. The first 100 starts and posts do not
// count: the kernel often leaves the very first wake-ups behind the busy thread until its next tick.
//
// Percentiles of the time from just before the start (the set) to the first instruction of the fiber, in us. The
// workers are idle then, so this is the wake-up of a sleeping thread plus the runtime's overhead.
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
#include "weft/bench/workload/plain_pool.h"

namespace weft::bench {

inline constexpr std::chrono::microseconds kWakeGap{50};
inline constexpr std::int64_t kWarmUp = 100;  // starts

inline double MicrosecondsSince(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - then).count();
}

// What the plain thread does while it waits.
enum class Waits { kAsleep, kBusy };

// Between two wakes, long enough for workers to fall asleep again.
inline void AwaitGap(Waits how) {
  if (how == Waits::kAsleep) {
    std::this_thread::sleep_for(kWakeGap);
  } else {
    for (const auto end = std::chrono::steady_clock::now() + kWakeGap; std::chrono::steady_clock::now() < end;) {
    }
  }
}

// Waits without a wake-up of its own: the workers must find only the measured work.
inline void AwaitCount(const std::atomic<std::int64_t>& count, std::int64_t wanted, Waits how = Waits::kAsleep) {
  while (count.load(std::memory_order_acquire) < wanted) {
    if (how == Waits::kAsleep) std::this_thread::sleep_for(kWakeGap);
  }
}

// Each adds `wakes` latencies in us.

// `start_task(f)` has f run by a worker, or by a thread of a pool.
template <class Start>
void MeasureStartsBy(std::int64_t wakes, Waits how, std::vector<double>* latency, Start start_task) {
  const std::size_t first = latency->size();
  latency->resize(first + static_cast<std::size_t>(wakes), -1);
  std::atomic<std::int64_t> done = 0;
  for (std::size_t i = first; i < latency->size(); ++i) {
    if (how == Waits::kBusy) AwaitCount(done, static_cast<std::int64_t>(i - first), how);
    AwaitGap(how);
    const auto start = std::chrono::steady_clock::now();
    auto noter = [start, &own = (*latency)[i], &done] {
      own = MicrosecondsSince(start);
      done.fetch_add(1, std::memory_order_release);
    };
    start_task(noter);
  }
  AwaitCount(done, wakes, how);
  for (double own : *latency) Require(own >= 0, "what was started ran once");
}

template <class Runtime>
void MeasureStarts(std::int64_t wakes, Waits how, std::vector<double>* latency) {
  MeasureStartsBy(wakes, how, latency,
                  [](auto f) { Require(Runtime::Spawn(f), "a fiber can be started from a plain thread"); });
}

// `sleeper_runs(f)` runs f in the fiber or thread that is to be woken.
template <class Event, class SleeperRuns>
void MeasureSets(std::int64_t wakes, Waits how, std::vector<double>* latency, SleeperRuns sleeper_runs) {
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
    if (how == Waits::kBusy) AwaitCount(done, i, how);
    AwaitGap(how);
    if (how == Waits::kAsleep) AwaitCount(done, i, how);
    start = std::chrono::steady_clock::now();
    event.Set();
  }
  AwaitCount(done, wakes, how);
  Require(latency->size() == first + static_cast<std::size_t>(wakes), "the fiber was woken once for each set");
}

template <class Runtime>
void MeasureParked(std::int64_t wakes, Waits how, std::vector<double>* latency) {
  MeasureSets<typename Runtime::Event>(wakes, how, latency, [](auto sleeper) {
    Require(Runtime::Spawn(sleeper), "a fiber can be started from a plain thread");
  });
}

template <class Runtime>
void RunWake(Round& round) {
  std::vector<double> latency;
  MeasureStarts<Runtime>(round.Scaled(20'000), Waits::kAsleep, &latency);
  ReportPercentiles(round, "", latency);
}

template <class Runtime>
void RunWakeParked(Round& round) {
  std::vector<double> latency;
  MeasureParked<Runtime>(round.Scaled(20'000), Waits::kAsleep, &latency);
  ReportPercentiles(round, "", latency);
}

// The threads' way: a flag under a mutex and a condition variable, notified after the unlock, by one thread for one
// thread.
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

// In turn, so that they can be compared.
template <class Runtime>
void MeasureBesideThreads(Round& round, int parts, Waits how) {
  const std::int64_t wakes = round.Scaled(1'000);
  std::vector<double> started;
  std::vector<double> parked;
  std::vector<double> threads;
  std::vector<double> pooled;
  PlainPool pool(round.workers());
  const auto post = [&pool](auto f) { pool.Post(f); };
  MeasureStarts<Runtime>(kWarmUp, how, &started);
  MeasureStartsBy(kWarmUp, how, &pooled, post);
  started.clear();
  pooled.clear();
  for (int part = 0; part < parts; ++part) {
    MeasureStarts<Runtime>(wakes, how, &started);
    MeasureParked<Runtime>(wakes, how, &parked);
    std::thread thread;
    MeasureSets<ThreadEvent>(wakes, how, &threads, [&thread](auto sleeper) { thread = std::thread(sleeper); });
    thread.join();
    MeasureStartsBy(wakes, how, &pooled, post);
  }
  ReportPercentiles(round, "started_", started);
  ReportPercentiles(round, "parked_", parked);
  ReportPercentiles(round, "thread_", threads);
  ReportPercentiles(round, "pool_", pooled);
}

template <class Runtime>
void RunWakeBesideThreads(Round& round) {
  MeasureBesideThreads<Runtime>(round, 10, Waits::kAsleep);
}

template <class Runtime>
void RunWakeBesideBusyThread(Round& round) {
  MeasureBesideThreads<Runtime>(round, 4, Waits::kBusy);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_WAKE_H_
