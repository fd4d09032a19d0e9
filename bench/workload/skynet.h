// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// skynet: a tree of fibers, ten children for each node, 100,000 or 1,000,000 leaves. A leaf's value is its number, a
// node waits for its children and adds up; the sum at the root is checked. Figure: wall time of the whole tree.
//
// It is the test of fork-join: breadth-first order makes the queue long, depth-first keeps it short.
#ifndef WEFT_BENCH_WORKLOAD_SKYNET_H_
#define WEFT_BENCH_WORKLOAD_SKYNET_H_

#include <cstdint>
#include <numeric>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

inline constexpr std::int64_t kSkynetChildren = 10;

// Sums the numbers [first, first + leaves) into *sum.
template <class Runtime>
void SkynetNode(std::int64_t first, std::int64_t leaves, std::int64_t* sum) {
  if (leaves == 1) {
    *sum = first;
    return;
  }
  typename Runtime::Latch children(kSkynetChildren);
  std::int64_t sums[kSkynetChildren];
  const std::int64_t leaves_of_child = leaves / kSkynetChildren;
  for (std::int64_t i = 0; i < kSkynetChildren; ++i) {
    auto child = [first_of_child = first + i * leaves_of_child, leaves_of_child, out = &sums[i], &children] {
      SkynetNode<Runtime>(first_of_child, leaves_of_child, out);
      children.CountDown();
    };
    Require(Runtime::Spawn(child), "a child can be started");
  }
  children.Wait();
  *sum = std::accumulate(sums, sums + kSkynetChildren, std::int64_t{0});
}

template <class Runtime>
void RunSkynetOf(Round& round, std::int64_t full_leaves, const char* figure) {
  // The largest full tree within the scale.
  std::int64_t leaves = full_leaves;
  while (leaves > round.Scaled(full_leaves, 1, Runtime::kSpawnDivisor) && leaves > 100) leaves /= kSkynetChildren;
  Runtime::RunInside([&] {
    Stopwatch watch;
    std::int64_t sum = -1;
    SkynetNode<Runtime>(0, leaves, &sum);
    round.Report(figure, watch.Milliseconds(), "ms");
    Require(sum == leaves * (leaves - 1) / 2, "skynet's sum is right");
  });
}

template <class Runtime>
void RunSkynet(Round& round) {
  RunSkynetOf<Runtime>(round, 100'000, "ms");
}

template <class Runtime>
void RunSkynetMillion(Round& round) {
  RunSkynetOf<Runtime>(round, 1'000'000, "ms_1m");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_SKYNET_H_
