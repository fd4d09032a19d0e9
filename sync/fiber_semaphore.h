// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSemaphore: a number of units; who takes one that is not there waits. As std::counting_semaphore, first come,
// first served.
//
// Who may call: any fiber and any thread. acquire() and the timed forms may switch (a thread: block); release() and
// try_acquire() never do.
// Memory ordering: what X did before release() is visible to Y after the acquire() that took a unit of that or a later
// release().
// Lifetime: may be destroyed as soon as all acquires have returned, even if the release() that let them through has
// not.
//
// One word: the units that are free and, in the lowest bit, whether somebody waits. One compare-and-swap each way while
// nobody waits. A released unit goes straight to the first waiter, whom nobody can overtake.
//
// Invariants
//   SE1  While the waiters' bit is set no unit is free, and the word changes under the queue's lock only.
//   SE2  The bit is set while the queue has a waiter (as seen by a holder of the lock).
//   SE3  release() touches the semaphore last in its compare-and-swap, or in the unlock of the queue. Who takes a unit
//        without the lock returns only when that is over (WaitQueue::AwaitQuiet).
#ifndef WEFT_SYNC_FIBER_SEMAPHORE_H_
#define WEFT_SYNC_FIBER_SEMAPHORE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/cpu.h"
#include "weft/sync/wait_queue.h"

namespace weft {

class FiberSemaphore {
 public:
  static constexpr std::ptrdiff_t max() noexcept { return PTRDIFF_MAX >> 1; }

  explicit FiberSemaphore(std::ptrdiff_t units) : word_(static_cast<std::uint64_t>(units) << kUnitShift) {
    WEFT_CHECK(units >= 0 && units <= max(), "FiberSemaphore: bad number of units ", units);
  }
  FiberSemaphore(const FiberSemaphore&) = delete;
  FiberSemaphore& operator=(const FiberSemaphore&) = delete;

  void acquire() noexcept {
    if (!try_acquire()) static_cast<void>(AcquireSlow(base::Deadline::Infinite(), sync::Interruptible::kNo));
  }

  // False: no unit is free.
  [[nodiscard]] bool try_acquire() noexcept {
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while (word >= kOneUnit) {                                   // Then the waiters' bit is not set: SE1.
      // acquire: what was done before the release() of the unit. Pairs with the releases in release() and
      // ReleaseSlow().
      if (word_.compare_exchange_weak(word, word - kOneUnit, std::memory_order_acquire, std::memory_order_relaxed)) {
        queue_.AwaitQuiet();  // SE3
        return true;
      }
    }
    return false;
  }

  // False: no unit within the time.
  template <class Rep, class Period>
  [[nodiscard]] bool try_acquire_for(const std::chrono::duration<Rep, Period>& timeout) noexcept {
    return try_acquire() ||
           AcquireSlow(base::Deadline::After(timeout), sync::Interruptible::kNo) == sync::WaitResult::kNotified;
  }

  // The same; any clock.
  template <class Clock, class Duration>
  [[nodiscard]] bool try_acquire_until(const std::chrono::time_point<Clock, Duration>& deadline) noexcept {
    return try_acquire() ||
           AcquireSlow(base::Deadline::At(deadline), sync::Interruptible::kNo) == sync::WaitResult::kNotified;
  }

  // For the layers above: an acquire() that sync::InterruptWait() can end. kNotified: a unit was taken.
  [[nodiscard]] sync::WaitResult AcquireInterruptibly(base::Deadline deadline = base::Deadline::Infinite()) noexcept {
    return try_acquire() ? sync::WaitResult::kNotified : AcquireSlow(deadline, sync::Interruptible::kYes);
  }

  void release(std::ptrdiff_t units = 1) noexcept {
    WEFT_CHECK(units >= 0 && units <= max(), "FiberSemaphore::release: bad number of units ", units);
    const std::uint64_t plus = static_cast<std::uint64_t>(units) << kUnitShift;
    std::uint64_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while ((word & kWaiters) == 0) {
      WEFT_DCHECK(word + plus > word || units == 0, "FiberSemaphore::release: more than max() units");
      // release: what the caller did before. Pairs with the acquire in try_acquire().
      if (word_.compare_exchange_weak(word, word + plus, std::memory_order_release, std::memory_order_relaxed)) return;
    }
    ReleaseSlow(units);
  }

 private:
  static constexpr std::uint64_t kWaiters = 1;
  static constexpr int kUnitShift = 1;
  static constexpr std::uint64_t kOneUnit = 1 << kUnitShift;

  sync::WaitResult AcquireSlow(base::Deadline deadline, sync::Interruptible interruptible) noexcept;
  void ReleaseSlow(std::ptrdiff_t units) noexcept;

  base::Atomic<std::uint64_t> word_;
  sync::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_SEMAPHORE_H_
