// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The counters as the scheduler keeps them. counters.h says what they mean, and reads them.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_WORKER_COUNTERS_H_
#define WEFT_SCHEDULING_GROUP_WORKER_WORKER_COUNTERS_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

// Its worker writes, any thread reads. relaxed throughout: statistics, nothing acts on them.
struct alignas(base::kCacheLineSize) WorkerCounters {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> finished{0};
  std::atomic<std::uint64_t> switches{0};
  std::atomic<std::uint64_t> spins{0};
  std::atomic<std::uint64_t> sleeps{0};
  std::atomic<std::uint64_t> wakes{0};
  std::atomic<std::uint64_t> idle_searches{0};
  std::atomic<std::uint64_t> peer_takes{0};

  static void Add(std::atomic<std::uint64_t>& counter) noexcept {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_WORKER_COUNTERS_H_
