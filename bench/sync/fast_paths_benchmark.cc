// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// What each primitive costs one thread that need not wait: a load (0.3 ns), or one or two atomic read-modify-writes (5
// ns each). With several threads on one object it is the price of a shared cache line, and of waiting.
//
// Twins: those of the standard library.

#include <benchmark/benchmark.h>

#include <atomic>
#include <condition_variable>
#include <semaphore>
#include <shared_mutex>

#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/sync/fiber_shared_mutex.h"

namespace weft {
namespace {

template <class ConditionVariable>
void BM_NotifyNobody(benchmark::State& state) {
  static ConditionVariable changed;
  for (auto _ : state) changed.notify_one();
}
BENCHMARK(BM_NotifyNobody<FiberConditionVariable>);
BENCHMARK(BM_NotifyNobody<std::condition_variable>);

void BM_WaitForSetEvent(benchmark::State& state) {
  FiberEvent event;
  event.Set();
  for (auto _ : state) event.Wait();
}
BENCHMARK(BM_WaitForSetEvent);

void BM_AcquireRelease(benchmark::State& state) {
  static FiberSemaphore semaphore(64);
  for (auto _ : state) {
    semaphore.Acquire();
    semaphore.Release();
  }
}
BENCHMARK(BM_AcquireRelease)->Threads(1)->Threads(2)->UseRealTime();

void BM_AcquireReleaseStd(benchmark::State& state) {
  static std::counting_semaphore<> semaphore(64);
  for (auto _ : state) {
    semaphore.acquire();
    semaphore.release();
  }
}
BENCHMARK(BM_AcquireReleaseStd)->Threads(1)->Threads(2)->UseRealTime();

template <class SharedMutex>
void BM_ReadLock(benchmark::State& state) {
  static SharedMutex mutex;
  for (auto _ : state) {
    mutex.lock_shared();
    mutex.unlock_shared();
  }
}
BENCHMARK(BM_ReadLock<FiberSharedMutex>)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_ReadLock<std::shared_mutex>)->Threads(1)->Threads(2)->UseRealTime();

template <class SharedMutex>
void BM_WriteLock(benchmark::State& state) {
  static SharedMutex mutex;
  for (auto _ : state) {
    mutex.lock();
    mutex.unlock();
  }
}
BENCHMARK(BM_WriteLock<FiberSharedMutex>)->Threads(1)->Threads(2)->UseRealTime();
BENCHMARK(BM_WriteLock<std::shared_mutex>)->Threads(1)->Threads(2)->UseRealTime();

// One writer in 64 operations.
void BM_SeqLockRead(benchmark::State& state) {
  static FiberSeqLock seqlock;
  static std::atomic<int> a{0}, b{0};
  unsigned i = 0;
  for (auto _ : state) {
    if (state.thread_index() == 0 && ++i % 64 == 0) {
      seqlock.WriteSeqLock();
      a.store(a.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      b.store(b.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
      seqlock.WriteSeqUnlock();
    }
    unsigned sequence;
    do {
      sequence = seqlock.ReadSeqBegin();
      benchmark::DoNotOptimize(a.load(std::memory_order_relaxed) - b.load(std::memory_order_relaxed));
    } while (seqlock.ReadSeqRetry(sequence) != 0);
  }
}
BENCHMARK(BM_SeqLockRead)->Threads(1)->Threads(2)->UseRealTime();

}  // namespace
}  // namespace weft
