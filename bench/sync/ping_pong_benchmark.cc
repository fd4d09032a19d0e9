// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// Two fibers hand a turn back and forth; time per round trip, which is two hand-offs: two waits, two wakes, two
// switches. The figure of two workers shows whether the pair stays on one core: each hand-off to another core costs a
// cache line or more.
//
// Twins: std::binary_semaphore, and std::mutex with std::condition_variable, between two threads: two futex wakes per
// round trip.

#include <benchmark/benchmark.h>

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <semaphore>
#include <thread>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"

namespace weft::bench {
namespace {

// Two directions; Send(i) lets the receiver of direction i go on.
class ByEvent {
 public:
  void Send(int direction) { events_[direction].Set(); }
  void Receive(int direction) {
    events_[direction].Wait();
    events_[direction].Reset();
  }

 private:
  FiberEvent events_[2];
};

class BySemaphore {
 public:
  void Send(int direction) { semaphores_[direction].Release(); }
  void Receive(int direction) { semaphores_[direction].Acquire(); }

 private:
  FiberSemaphore semaphores_[2] = {FiberSemaphore(0), FiberSemaphore(0)};
};

class ByRendezvous {
 public:
  void Send(int direction) { static_cast<void>(channels_[direction].Put(1)); }
  void Receive(int direction) { static_cast<void>(channels_[direction].Get()); }

 private:
  FiberChannel<int> channels_[2] = {FiberChannel<int>(0), FiberChannel<int>(0)};
};

template <class Mutex, class ConditionVariable>
class ByConditionVariable {
 public:
  void Send(int direction) {
    {
      std::scoped_lock lock(mutex_);
      turn_ = direction;
    }
    changed_.notify_one();
  }
  void Receive(int direction) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return turn_ == direction; });
    turn_ = kNobodys;
  }

 private:
  static constexpr int kNobodys = -1;
  Mutex mutex_;
  ConditionVariable changed_;
  int turn_ = kNobodys;
};

class ByStdSemaphore {
 public:
  void Send(int direction) { semaphores_[direction].release(); }
  void Receive(int direction) { semaphores_[direction].acquire(); }

 private:
  std::binary_semaphore semaphores_[2] = {std::binary_semaphore(0), std::binary_semaphore(0)};
};

// The other side, until it receives `stop` with a turn.
template <class Turns>
void Answer(Turns* turns, const bool* stop) {
  for (;;) {
    turns->Receive(0);
    if (*stop) return;
    turns->Send(1);
  }
}

template <class Turns>
void Ask(benchmark::State& state, Turns* turns, bool* stop) {
  for (auto _ : state) {
    turns->Send(0);
    turns->Receive(1);
  }
  *stop = true;
  turns->Send(0);
}

template <class Turns>
void BM_PingPong(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  Turns turns;
  bool stop = false;
  Fiber other([&] { Answer(&turns, &stop); });
  runtime.RunInside([&] { Ask(state, &turns, &stop); });
  other.Join();
}
BENCHMARK(BM_PingPong<ByEvent>)->Apply(OnSomeWorkers);
BENCHMARK(BM_PingPong<BySemaphore>)->Apply(OnSomeWorkers);
BENCHMARK(BM_PingPong<ByRendezvous>)->Apply(OnSomeWorkers);
BENCHMARK(BM_PingPong<ByConditionVariable<FiberMutex, FiberConditionVariable>>)->Apply(OnSomeWorkers);

template <class Turns>
void BM_PingPongOfThreads(benchmark::State& state) {
  Turns turns;
  bool stop = false;
  std::thread other([&] { Answer(&turns, &stop); });
  Ask(state, &turns, &stop);
  other.join();
}
BENCHMARK(BM_PingPongOfThreads<ByStdSemaphore>)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_PingPongOfThreads<ByConditionVariable<std::mutex, std::condition_variable>>)
    ->UseRealTime()
    ->MeasureProcessCPUTime();
// The same primitives as above, which threads may use as well.
BENCHMARK(BM_PingPongOfThreads<BySemaphore>)->UseRealTime()->MeasureProcessCPUTime();
BENCHMARK(BM_PingPongOfThreads<ByConditionVariable<FiberMutex, FiberConditionVariable>>)
    ->UseRealTime()
    ->MeasureProcessCPUTime();

}  // namespace
}  // namespace weft::bench
