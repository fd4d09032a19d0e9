// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces base/thread/spin_lock.h in model tests of its users: a lock of the same size and orders, which blocks where
// the real one spins or sleeps (tests/model/spin_lock_model.cc explores that).
#ifndef WEFT_BASE_THREAD_SPIN_LOCK_H_
#define WEFT_BASE_THREAD_SPIN_LOCK_H_

#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/tests/testing/interleave.h"

namespace weft::base {

class WEFT_CAPABILITY("SpinLock") SpinLock {
 public:
  constexpr SpinLock() = default;
  SpinLock(const SpinLock&) = delete;
  SpinLock& operator=(const SpinLock&) = delete;

  void lock() noexcept WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    while (!try_lock()) model::BlockWhile(&word_, 1);
  }
  [[nodiscard]] bool try_lock() noexcept WEFT_TRY_ACQUIRE(true) {
    std::uint32_t free = 0;
    return word_.compare_exchange_strong(free, 1, std::memory_order_acquire, std::memory_order_relaxed);
  }
  void unlock() noexcept WEFT_RELEASE() { word_.store(0, std::memory_order_release); }
  bool is_held() const noexcept { return word_.load(std::memory_order_acquire) != 0; }

 private:
  Atomic<std::uint32_t> word_{0};
};

class WEFT_SCOPED_CAPABILITY SpinLockGuard {
 public:
  explicit SpinLockGuard(SpinLock& lock) noexcept WEFT_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
  ~SpinLockGuard() WEFT_RELEASE() { lock_.unlock(); }
  SpinLockGuard(const SpinLockGuard&) = delete;
  SpinLockGuard& operator=(const SpinLockGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_SPIN_LOCK_H_
