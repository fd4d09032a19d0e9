// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// yield: 1,000 fibers yield 1,000 times each. ns_per_yield is wall time by yields: one pass through the run queue and
// one switch, with every fiber's stack long gone from the first-level cache.
#ifndef WEFT_BENCH_WORKLOAD_YIELD_H_
#define WEFT_BENCH_WORKLOAD_YIELD_H_

#include <atomic>
#include <cstdint>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

template <class Runtime>
void RunYield(Round& round) {
  const std::int64_t fibers = round.Scaled(1'000, 1, Runtime::kLiveDivisor);
  const std::int64_t yields = round.Scaled(1'000);
  Runtime::RunInside([&] {
    std::atomic<std::int64_t> counted = 0;
    Stopwatch watch;
    typename Runtime::Latch done(fibers);
    for (std::int64_t i = 0; i < fibers; ++i) {
      auto yielder = [&] {
        std::int64_t own = 0;
        for (; own < yields; ++own) Runtime::Yield();
        counted.fetch_add(own, std::memory_order_relaxed);
        done.CountDown();
      };
      Require(Runtime::Spawn(yielder), "a yielding fiber can be started");
    }
    done.Wait();
    round.Report("ns_per_yield", watch.NanosecondsPer(fibers * yields), "ns");
    Require(counted.load() == fibers * yields, "every yield returned once");
  });
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_YIELD_H_
