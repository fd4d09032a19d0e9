// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// mutex:        64 fibers x 20,000 lock, ++counter, unlock.
// mutex_yield:  16 fibers x 5,000 the same, yielding while they hold it: all others must block.
//
// ns_per_lock is wall time by locks. A plain counter under the mutex is the check.
//
// mutex_yield has several modes, and rounds differ by a factor of ten: the holder runs alone while a waiter on another
// worker spins (best), waiters and holder take turns on one worker, or the lock moves back and forth between workers
// (worst).
#ifndef WEFT_BENCH_WORKLOAD_MUTEX_H_
#define WEFT_BENCH_WORKLOAD_MUTEX_H_

#include <cstdint>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

template <class Runtime, class InsideLock>
void RunMutexOf(Round& round, std::int64_t fibers, std::int64_t locks, InsideLock inside_lock) {
  Runtime::RunInside([&] {
    typename Runtime::Mutex mutex;
    std::int64_t counter = 0;
    Stopwatch watch;
    typename Runtime::Latch done(fibers);
    for (std::int64_t i = 0; i < fibers; ++i) {
      auto locker = [&] {
        for (std::int64_t l = 0; l < locks; ++l) {
          mutex.lock();
          ++counter;
          inside_lock();
          mutex.unlock();
        }
        done.CountDown();
      };
      Require(Runtime::Spawn(locker), "a locking fiber can be started");
    }
    done.Wait();
    round.Report("ns_per_lock", watch.NanosecondsPer(fibers * locks), "ns");
    Require(counter == fibers * locks, "the mutex excluded");
  });
}

template <class Runtime>
void RunMutex(Round& round) {
  RunMutexOf<Runtime>(round, 64, round.Scaled(20'000), [] {});
}

template <class Runtime>
void RunMutexYield(Round& round) {
  RunMutexOf<Runtime>(round, 16, round.Scaled(5'000), [] { Runtime::Yield(); });
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_MUTEX_H_
