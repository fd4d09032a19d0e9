// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/serving/memory_trim.h"

#include <gflags/gflags.h>
#include <malloc.h>
#include <time.h>

#include <utility>

#include "weft/io/fiber_blocking.h"

DEFINE_uint32(trim_memory_ms, 2'000,
              "How often the server looks whether it has become quiet, and may give free memory back. 0: never.");

namespace examples {
using std::chrono::steady_clock;

MemoryTrim::Nanoseconds MemoryTrim::CpuTimeOfProcess() {
  timespec used{};
  static_cast<void>(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used));
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

bool MemoryTrim::Start() {
  period_ = std::chrono::milliseconds(FLAGS_trim_memory_ms);
  if (period_.count() == 0) return true;
  return task_.Start("memory_trim", {.period = period_, .pace = weft::PeriodicTask::Pace::kFixedDelay},
                     [this] { Look(); });
}

void MemoryTrim::Look() {
  const Nanoseconds used = cpu_time_();
  const bool quiet = used - std::exchange(used_at_look_, used) < period_ / 10;
  if (!quiet || used - used_at_trim_ < kNothing || steady_clock::now() < not_before_) return;
  const Nanoseconds took = weft::FiberBlocking([] {
    const auto begin = steady_clock::now();
    static_cast<void>(::malloc_trim(0));
    return steady_clock::now() - begin;
  });
  not_before_ = steady_clock::now() + 100 * took;
  used_at_trim_ = cpu_time_();
  trims_.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace examples
