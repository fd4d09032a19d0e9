// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/spin_lock.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "weft/base/thread/parker.h"

namespace weft::base {

WEFT_NOINLINE void SpinLock::LockSlow() noexcept {
  for (std::chrono::microseconds sleep_for = kFirstSleep;;) {
    int pauses = kFirstBackoff;
    for (int paused = 0;; paused += std::exchange(pauses, std::min(2 * pauses, kLongestBackoff))) {
      std::uint32_t found = kFree;
      // relaxed: only a hint that the next line may succeed.  acquire: as in lock().
      if (word_.load(std::memory_order_relaxed) == kFree &&
          word_.compare_exchange_weak(found, kHeld, std::memory_order_acquire, std::memory_order_relaxed)) {
        return;
      }
      if (paused >= kSpins) break;
      for (int pause = 0; pause < pauses; ++pause) CpuRelax();
    }
    const auto until = std::chrono::steady_clock::now() + sleep_for;
    // SL3. It ends early if the lock has just become free.
    const bool slept = !FutexWait(&word_, kHeld, &until);
    if (slept) sleep_for = std::min(2 * sleep_for, kLongestSleep);
  }
}

}  // namespace weft::base
