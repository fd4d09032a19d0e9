// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// pairs_1, pairs, pairs_256: 1, 16 and 256 pairs of fibers that hand off to each other by two semaphores, for 10 ms and
// then, measured, for 200 ms.
//
//   together    both fibers of a pair begin in one group, the pairs in one group after the other
//   split       the second one begins in the next group
//   one_group   all begin in the first group
//
// <case>_ns is the time by hand-offs, <case>_cpu_ns the CPU time of the process by hand-offs. With several groups
// (--workers=8 --groups=2), with stealing and without (--fiber_work_stealing_ratio=0), they show what it costs that
// fibers talk to each other across groups, and whether they come together.
#ifndef WEFT_BENCH_WORKLOAD_PAIRS_H_
#define WEFT_BENCH_WORKLOAD_PAIRS_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"

namespace weft::bench {

template <class Runtime>
struct PairInTurns {
  template <class Done>
  void First(const std::atomic<bool>& stop, const Done& done) {
    for (;;) {
      last = stop.load(std::memory_order_relaxed);
      to_second.release();
      if (last) break;
      to_first.acquire();
      Count();
    }
    done();
  }
  template <class Done>
  void Second(const Done& done) {
    for (;;) {
      to_second.acquire();
      Count();
      if (last) break;
      to_first.release();
    }
    done();
  }
  void Count() { hand_offs.store(hand_offs.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed); }

  typename Runtime::Semaphore to_first{0};
  typename Runtime::Semaphore to_second{0};
  bool last = false;
  alignas(64) std::atomic<std::int64_t> hand_offs{0};
};

// first, second: number of a pair -> group in which the fiber begins.
template <class Runtime, class First, class Second>
void MeasurePairs(Round& round, const std::string& what, int count, First first, Second second) {
  using Pair = PairInTurns<Runtime>;
  const auto pairs = std::make_unique<Pair[]>(static_cast<std::size_t>(count));
  std::atomic<bool> stop = false;
  typename Runtime::Latch done(2 * count);
  const auto one_done = [&done] { done.CountDown(); };
  for (int i = 0; i < count; ++i) {
    Pair* const pair = &pairs[static_cast<std::size_t>(i)];
    Runtime::SpawnIn(second(i), [pair, one_done] { pair->Second(one_done); });
    Runtime::SpawnIn(first(i), [pair, &stop, one_done] { pair->First(stop, one_done); });
  }
  const auto hand_offs = [&] {
    std::int64_t sum = 0;
    for (int i = 0; i < count; ++i) sum += pairs[static_cast<std::size_t>(i)].hand_offs.load(std::memory_order_relaxed);
    return sum;
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const std::int64_t before = hand_offs();
  const double cpu_before = ProcessCpuMilliseconds();
  const Stopwatch watch;
  std::this_thread::sleep_for(std::chrono::milliseconds(round.Scaled(200)));
  const double cpu = ProcessCpuMilliseconds() - cpu_before;
  const std::int64_t handed_off = std::max<std::int64_t>(hand_offs() - before, 1);
  round.Report(what + "_ns", watch.NanosecondsPer(handed_off), "ns");
  round.Report(what + "_cpu_ns", cpu * 1e6 / static_cast<double>(handed_off), "ns");
  stop = true;
  done.Wait();
}

template <class Runtime, int kPairs>
void RunPairs(Round& round) {
  const int groups = Runtime::GroupCount();
  const auto in_turn = [groups](int i) { return i % groups; };
  const auto next = [groups](int i) { return (i + 1) % groups; };
  const auto first_group = [](int) { return 0; };
  MeasurePairs<Runtime>(round, "together", kPairs, in_turn, in_turn);
  if (groups == 1) return;
  MeasurePairs<Runtime>(round, "split", kPairs, in_turn, next);
  MeasurePairs<Runtime>(round, "one_group", kPairs, first_group, first_group);
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_PAIRS_H_
