// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// MemoryTrim: gives memory that malloc() keeps back to the system, when the process has become quiet.
//
// glibc's malloc() gives back by itself only what is free at the end of a heap: one small object there keeps all that
// thousands of connections below it have freed. malloc_trim(3) gives back every page that is free. It holds the locks
// of the heaps meanwhile, and the pages come back by page faults, so nobody wants it while there is work.
//
//     each --trim_memory_ms: the process has used less than a tenth of a CPU since the last look,
//                            and has done something since the last trim: malloc_trim(), on a thread of the pool
//
// At most a hundredth of the time goes into it, however long a trim takes.
#ifndef WEFT_EXAMPLES_SERVING_MEMORY_TRIM_H_
#define WEFT_EXAMPLES_SERVING_MEMORY_TRIM_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "weft/fiber/periodic_task.h"

namespace examples {

class MemoryTrim {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  static Nanoseconds CpuTimeOfProcess();
  // Another one for tests.
  explicit MemoryTrim(Nanoseconds (*cpu_time)() = &CpuTimeOfProcess) : cpu_time_(cpu_time) {}

  // A fiber or a thread, once. Stops with the object, or with the runtime. False: no fiber can be started.
  [[nodiscard]] bool Start();
  // How often it has trimmed. Anybody.
  std::uint64_t trims() const { return trims_.load(std::memory_order_relaxed); }

 private:
  void Look();

  // Below it the process has done nothing that could have freed much.
  static constexpr Nanoseconds kNothing = std::chrono::milliseconds(20);

  Nanoseconds (*const cpu_time_)();
  std::chrono::milliseconds period_{};
  Nanoseconds used_at_look_{};
  Nanoseconds used_at_trim_{};
  std::chrono::steady_clock::time_point not_before_{};
  std::atomic<std::uint64_t> trims_{0};
  weft::PeriodicTask task_;
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_MEMORY_TRIM_H_
