// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_LockUnlock: one lock, ++counter, unlock, by 1, 2 and 8 threads. With one thread it is the price of an uncontended
// lock: one atomic read-modify-write and one store. With two it is a cache line handed back and forth. With more
// threads than cores the holder gets descheduled at times; a lock that only spins would show milliseconds here.
//
// Twin: std::mutex.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <mutex>

#include "weft/base/thread/spin_lock.h"

namespace {

template <class Lock>
struct Guarded {
  Lock lock;
  std::int64_t counter = 0;
};

template <class Lock>
void BM_LockUnlock(benchmark::State& state) {
  static Guarded<Lock> guarded;
  for (auto _ : state) {
    guarded.lock.lock();
    benchmark::DoNotOptimize(++guarded.counter);
    guarded.lock.unlock();
  }
}

BENCHMARK(BM_LockUnlock<weft::base::SpinLock>)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();
BENCHMARK(BM_LockUnlock<std::mutex>)->Threads(1)->Threads(2)->Threads(8)->UseRealTime();

}  // namespace
