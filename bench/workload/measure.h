// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The kernel's account of the process, and percentiles of timed samples.
#ifndef WEFT_BENCH_WORKLOAD_MEASURE_H_
#define WEFT_BENCH_WORKLOAD_MEASURE_H_

#include <cstdint>
#include <vector>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

struct ProcessMemory {
  std::int64_t resident_bytes;    // /proc/self/statm
  std::int64_t page_table_bytes;  // VmPTE of /proc/self/status
  std::int64_t mappings;          // Lines of /proc/self/maps
};

ProcessMemory ReadProcessMemory();

// CPU time of all threads of the process so far, in milliseconds.
double ProcessCpuMilliseconds();

// The value below which `fraction` of the samples lie. Sorts as far as it must.
double Percentile(std::vector<double>& samples, double fraction);

// Reports p50, p99 and p999 of `microseconds` as <prefix>p50_us and so on.
void ReportPercentiles(Round& round, const std::string& prefix, std::vector<double>& microseconds);

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_MEASURE_H_
