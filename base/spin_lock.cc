// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/spin_lock.h"

#include "weft/base/futex.h"

namespace weft::base {

WEFT_NOINLINE void SpinLock::LockSlow() noexcept {
  for (int i = 0; i < kSpins; ++i) {
    std::uint32_t found = kFree;
    // relaxed: only a hint that the next line may succeed.  acquire: as in lock().
    if (word_.load(std::memory_order_relaxed) == kFree &&
        word_.compare_exchange_weak(found, kHeld, std::memory_order_acquire, std::memory_order_relaxed)) {
      return;
    }
    CpuRelax();
  }
  // Others may sleep: from here on we own the lock as kHeldWithSleepers, so that our unlock() wakes the next.  acquire:
  // as in lock().
  while (word_.exchange(kHeldWithSleepers, std::memory_order_acquire) != kFree) {
    const auto until = std::chrono::steady_clock::now() + kSleepFor;  // SL3
    static_cast<void>(FutexWait(&word_, kHeldWithSleepers, &until));
  }
}

WEFT_NOINLINE void SpinLock::UnlockSlow() noexcept {
  // release: as in unlock().
  word_.store(kFree, std::memory_order_release);
  FutexWake(&word_, 1);
}

}  // namespace weft::base
