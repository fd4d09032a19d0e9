// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/bench/workload/measure.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace weft::bench {

ProcessMemory ReadProcessMemory() {
  ProcessMemory memory{};
  std::int64_t ignored_size = 0;
  std::int64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> ignored_size >> resident_pages;
  memory.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);

  std::string line;
  for (std::ifstream status("/proc/self/status"); std::getline(status, line);) {
    if (line.rfind("VmPTE:", 0) == 0) memory.page_table_bytes = std::stoll(line.substr(6)) * 1024;
  }
  for (std::ifstream maps("/proc/self/maps"); std::getline(maps, line);) ++memory.mappings;
  Require(memory.resident_bytes > 0 && memory.page_table_bytes > 0, "/proc/self can be read");
  return memory;
}

double ProcessCpuMilliseconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

double Percentile(std::vector<double>& samples, double fraction) {
  Require(!samples.empty(), "there are samples to take a percentile of");
  const auto rank = static_cast<std::ptrdiff_t>(fraction * static_cast<double>(samples.size() - 1));
  std::nth_element(samples.begin(), samples.begin() + rank, samples.end());
  return samples[static_cast<std::size_t>(rank)];
}

void ReportPercentiles(Round& round, const std::string& prefix, std::vector<double>& microseconds) {
  round.Report(prefix + "p50_us", Percentile(microseconds, 0.50), "us");
  round.Report(prefix + "p99_us", Percentile(microseconds, 0.99), "us");
  round.Report(prefix + "p999_us", Percentile(microseconds, 0.999), "us");
}

}  // namespace weft::bench
