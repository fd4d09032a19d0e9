// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_PushPop: each of `threads` threads pushes one fiber and pops one, over and over, on one queue. With one thread it
// is the price of two uncontended read-modify-writes and two slots; a second adds the shared lines (head, tail, slots)
// that move between the cores.
// BM_PushPopBatch: the same with `batch` fibers a time, as a batch start and a thief do; time is per fiber. The
// difference to BM_PushPop is why visits to a shared queue should take several.
//
// Twin: a std::deque under a std::mutex.

#include <benchmark/benchmark.h>

#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/run_queue.h"

namespace {

using weft::scheduling_group::FiberEntity;
using weft::scheduling_group::RunQueue;

constexpr std::size_t kCapacity = 1 << 17;

class RingQueue {
 public:
  bool Push(FiberEntity* fiber) { return queue_.TryPush(fiber); }
  FiberEntity* Pop() { return queue_.TryPop(); }

 private:
  RunQueue queue_{kCapacity};
};

class MutexDeque {
 public:
  bool Push(FiberEntity* fiber) {
    std::scoped_lock lock(mutex_);
    deque_.push_back(fiber);
    return true;
  }
  FiberEntity* Pop() {
    std::scoped_lock lock(mutex_);
    if (deque_.empty()) return nullptr;
    FiberEntity* fiber = deque_.front();
    deque_.pop_front();
    return fiber;
  }

 private:
  std::mutex mutex_;
  std::deque<FiberEntity*> deque_;
};

// Never run: the queues only carry its address.
FiberEntity* AnyFiber() {
  static FiberEntity fiber;
  return &fiber;
}

// A thread that is descheduled between owning a position and filling or emptying its slot makes others fail. Such
// failures are part of the price, so each try is repeated until it succeeds.
template <class Try>
void Repeat(Try attempt) {
  while (!attempt()) std::this_thread::yield();
}

template <class Queue>
void BM_PushPop(benchmark::State& state) {
  static Queue queue;
  FiberEntity* const fiber = AnyFiber();
  for (auto _ : state) {
    Repeat([&] { return queue.Push(fiber); });
    Repeat([&] { return queue.Pop() != nullptr; });
  }
}

void BM_PushPopBatch(benchmark::State& state) {
  static RunQueue queue(kCapacity);
  const auto batch = static_cast<std::size_t>(state.range(0));
  std::vector<FiberEntity*> fibers(batch, AnyFiber());
  while (state.KeepRunningBatch(static_cast<benchmark::IterationCount>(batch))) {
    std::size_t left = batch;
    Repeat([&] { return (left -= queue.PushSome(fibers.data(), left)) == 0; });
    left = batch;
    Repeat([&] { return (left -= queue.PopSome(fibers.data(), left)) == 0; });
  }
}

BENCHMARK(BM_PushPop<RingQueue>)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();
BENCHMARK(BM_PushPop<MutexDeque>)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();
BENCHMARK(BM_PushPopBatch)->ArgName("batch")->Arg(4)->Arg(32)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();

}  // namespace
