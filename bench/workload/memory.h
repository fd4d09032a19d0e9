// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// memory: what 100,000 (1,000,000) parked fibers cost that have each touched 1 KiB of their stack.
//
// bytes_per_fiber is the growth of the resident set. The page tables' growth is reported beside it and in the sum
// (bytes_per_fiber_with_page_tables): a page of page table maps 512 pages, so sparse stacks cost more than they touch.
#ifndef WEFT_BENCH_WORKLOAD_MEMORY_H_
#define WEFT_BENCH_WORKLOAD_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/measure.h"
#include "weft/bench/workload/wake.h"

namespace weft::bench {

// A frame of 1 KiB, all of it written.
[[gnu::noinline]] inline void TouchStack() {
  volatile char frame[1024];
  for (std::size_t i = 0; i < sizeof(frame); ++i) frame[i] = static_cast<char>(i);
}

template <class Runtime>
void RunMemoryOf(Round& round, std::int64_t full_fibers, const std::string& suffix) {
  // Against the process before its first round: memory that later rounds reuse counts as well.
  static const ProcessMemory before = ReadProcessMemory();
  const std::int64_t fibers = round.Scaled(full_fibers, 1, Runtime::kLiveDivisor);
  std::atomic<std::int64_t> parked = 0;
  typename Runtime::Event gate;
  typename Runtime::Latch finished(fibers);
  Runtime::RunInside([&] {
    for (std::int64_t i = 0; i < fibers; ++i) {
      auto fiber = [&] {
        TouchStack();
        parked.fetch_add(1, std::memory_order_relaxed);
        gate.Wait();
        finished.CountDown();
      };
      Require(Runtime::Spawn(fiber), "a fiber can be started");
    }
  });
  AwaitCount(parked, fibers);
  const ProcessMemory now = ReadProcessMemory();
  gate.Set();
  finished.Wait();

  const auto per_fiber = [fibers](std::int64_t bytes) {
    return static_cast<double>(bytes) / static_cast<double>(fibers);
  };
  const double resident = per_fiber(now.resident_bytes - before.resident_bytes);
  const double page_tables = per_fiber(now.page_table_bytes - before.page_table_bytes);
  round.Report("bytes_per_fiber" + suffix, resident, "bytes");
  round.Report("page_table_bytes_per_fiber" + suffix, page_tables, "bytes");
  round.Report("bytes_per_fiber_with_page_tables" + suffix, resident + page_tables, "bytes");
  round.Remark(std::to_string(fibers) + " fibers parked, " + Runtime::DescribeGuards() + ", " +
               std::to_string(now.mappings) + " mappings (" + std::to_string(before.mappings) + " before)");
}

template <class Runtime>
void RunMemory(Round& round) {
  RunMemoryOf<Runtime>(round, 100'000, "");
}

template <class Runtime>
void RunMemoryMillion(Round& round) {
  RunMemoryOf<Runtime>(round, 1'000'000, "_1m");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_MEMORY_H_
