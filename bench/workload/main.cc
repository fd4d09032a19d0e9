// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_workload: the workloads on Weft. For the form of the output see harness.h, for each workload its header.

#include "weft/bench/workload/all_workloads.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/weft_runtime.h"

int main(int argc, char** argv) {
  return weft::bench::RunWorkloads(argc, argv, {weft::bench::Describe<weft::bench::WeftRuntime>()});
}
