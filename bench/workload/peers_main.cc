// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_workload_peers: each workload on Weft, on Boost.Fiber and on std::thread, one right after the other. On a shared
// machine absolute figures move by a factor of two between runs; the ratios within one run of this program hold.

#include "weft/bench/workload/all_workloads.h"
#include "weft/bench/workload/boost_fiber_runtime.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/std_thread_runtime.h"
#include "weft/bench/workload/weft_runtime.h"

int main(int argc, char** argv) {
  using namespace weft::bench;
  return RunWorkloads(argc, argv,
                      {Describe<WeftRuntime>(), Describe<BoostFiberRuntime<BoostSharedWork>>(),
                       Describe<BoostFiberRuntime<BoostWorkStealing>>(), Describe<StdThreadRuntime>()});
}
