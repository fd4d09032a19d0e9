// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CycleClock: the cheapest clock that all CPUs share, for stamps that are made into times later.
//
//   x86-64    the time stamp counter, if it runs at one rate in all states of the CPU (constant, nonstop);
//             unserialised: it may be read some instructions early or late
//   aarch64   the generic timer's virtual counter
//   else      the steady clock, in nanoseconds
//
// A reading costs 12 ns on a virtual CPU of an AMD EPYC, two fifths of the steady clock's (which reads the same
// counter, behind a fence, and multiplies). Nothing is said of its rate: CycleScale compares it with the steady
// clock's, read twice. The times between the two are as exact as these readings, 0.1 us, where the kernel itself takes
// the counter for its clock.
//
// Rejected: the rate that the CPU or the kernel names (neither is there in all virtual machines).
#ifndef WEFT_BASE_TIME_CYCLE_CLOCK_H_
#define WEFT_BASE_TIME_CYCLE_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"

namespace weft::base {

class CycleClock {
 public:
  // Before the first Now(). Any thread.
  static void Choose() noexcept;

  // Any thread. Neighbouring readings of two CPUs may be a little out of order.
  WEFT_ALWAYS_INLINE static std::uint64_t Now() noexcept {
#if defined(__x86_64__)
    if (is_steady_.load(std::memory_order_relaxed)) [[likely]] {  // Carries nothing.
      return __builtin_ia32_rdtsc();
    }
    return OfSteadyClock();
#elif defined(__aarch64__)
    std::uint64_t count;
    asm volatile("mrs %0, cntvct_el0" : "=r"(count));
    return count;
#else
    return OfSteadyClock();
#endif
  }

 private:
  static std::uint64_t OfSteadyClock() noexcept;

  static constinit std::atomic<bool> is_steady_;
};

// Makes times of CycleClock's readings.
class CycleScale {
 public:
  // Both clocks at one time.
  struct Reading {
    std::uint64_t cycles = 0;
    std::chrono::steady_clock::time_point time;

    // The best of some tries: one that was not interrupted.
    static Reading Now() noexcept;
  };

  // first comes before last. If they are the same reading, all times are its own.
  CycleScale(const Reading& first, const Reading& last) noexcept;

  std::chrono::steady_clock::time_point TimeOf(std::uint64_t cycles) const noexcept;

 private:
  Reading last_;
  double ns_per_cycle_;
};

}  // namespace weft::base

#endif  // WEFT_BASE_TIME_CYCLE_CLOCK_H_
