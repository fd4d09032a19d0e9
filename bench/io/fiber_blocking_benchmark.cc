// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// Another thread makes an empty call for a caller, which waits for it; time per round trip. Two wake-ups of a thread
// are unavoidable: the pool's, and the worker's (which has nothing else to do and sleeps, unless it still spins).
// BM_TwoThreadWakes is just these, between two threads on base::Parkers.
//
// BM_FiberBlocking       one fiber; the call is on its stack, nothing is allocated
// BM_FiberBlockingUntil  the same with a limit of time: the call is on the heap, and a timer is set
// BM_FiberBlockingMany   64 fibers at once on a pool of 64 threads: time per call. Threads that end a call find further
//                        ones, and workers further fibers: this saves most wake-ups.
// BM_MakeThread          what the caller pays when its call needs a new thread: the time until std::thread's
//                        constructor has returned
// Twins: std::async (a new thread each), and the pool that people write: threads on one std::mutex and
// std::condition_variable, whose caller waits on another pair.

#include <benchmark/benchmark.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/base/thread/parker.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/io/fiber_blocking.h"
#include "weft/sync/fiber_latch.h"

namespace weft::bench {
namespace {

void BM_FiberBlocking(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) FiberBlocking([] {});
  });
}

void BM_FiberBlockingUntil(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) benchmark::DoNotOptimize(FiberBlocking([] {}, std::chrono::hours(1)));
  });
}

void BM_FiberBlockingMany(benchmark::State& state) {
  constexpr int kFibers = 64;
  constexpr int kCallsEach = 16;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      FiberLatch ended(kFibers);
      for (int i = 0; i < kFibers; ++i) {
        MustStart([&] {
          for (int call = 0; call < kCallsEach; ++call) FiberBlocking([] {});
          ended.CountDown();
        });
      }
      ended.Wait();
    }
  });
  state.SetItemsProcessed(state.iterations() * kFibers * kCallsEach);
}

void BM_TwoThreadWakes(benchmark::State& state) {
  base::Parker there, here;
  std::atomic<bool> stop{false};
  std::thread other([&] {
    for (;;) {
      there.Park();
      if (stop.load(std::memory_order_relaxed)) return;
      here.Unpark();
    }
  });
  for (auto _ : state) {
    there.Unpark();
    here.Park();
  }
  stop = true;
  there.Unpark();
  other.join();
}

void BM_MakeThread(benchmark::State& state) {
  for (auto _ : state) {
    std::thread thread([] {});
    state.PauseTiming();
    thread.join();
    state.ResumeTiming();
  }
}

void BM_StdAsync(benchmark::State& state) {
  for (auto _ : state) std::async(std::launch::async, [] {}).get();
}

class PoolOnConditionVariable {
 public:
  explicit PoolOnConditionVariable(int threads) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Serve(); });
  }
  ~PoolOnConditionVariable() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    not_empty_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Execute() {
    Call call;
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(&call);
    }
    not_empty_.notify_one();
    std::unique_lock lock(call.mutex);
    call.ended.wait(lock, [&] { return call.has_ended; });
  }

 private:
  struct Call {
    std::mutex mutex;
    std::condition_variable ended;
    bool has_ended = false;
  };
  void Serve() {
    for (;;) {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Call* const call = queue_.front();
      queue_.pop_front();
      lock.unlock();
      const std::scoped_lock call_lock(call->mutex);
      call->has_ended = true;
      call->ended.notify_one();  // Under the lock: the call is gone afterwards.
    }
  }

  std::mutex mutex_;
  std::condition_variable not_empty_;
  std::deque<Call*> queue_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

void BM_PoolOnConditionVariable(benchmark::State& state) {
  PoolOnConditionVariable pool(4);
  for (auto _ : state) pool.Execute();
}

BENCHMARK(BM_FiberBlocking)->Apply(OnSomeWorkers);
BENCHMARK(BM_FiberBlockingUntil)->Apply(OnSomeWorkers);
BENCHMARK(BM_FiberBlockingMany)->Apply(OnSomeWorkers);
BENCHMARK(BM_TwoThreadWakes)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_PoolOnConditionVariable)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_MakeThread)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_StdAsync)->UseRealTime()->MeasureProcessCPUTime();

}  // namespace
}  // namespace weft::bench
