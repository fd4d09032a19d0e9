// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/cancel_word.h"

#include <time.h>

namespace weft::scheduling_group {

WEFT_NOINLINE void CancelWord::LockSlow() noexcept {
  // As SpinLock: a bounded spin, then short sleeps, for the holder may need this very CPU.
  constexpr int kSpins = 256;
  for (int spins = 0;; ++spins) {
    // relaxed: only a hint that the next line may succeed. seq_cst: as in lock().
    if (!held_.load(std::memory_order_relaxed) && !held_.exchange(true, std::memory_order_seq_cst)) return;
    if (spins < kSpins) {
      base::CpuRelax();
    } else {
#ifndef WEFT_MODEL_CHECK
      const timespec rest{.tv_sec = 0, .tv_nsec = 50'000};
      ::nanosleep(&rest, nullptr);
#endif
    }
  }
}

}  // namespace weft::scheduling_group
