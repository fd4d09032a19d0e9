// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberClock: the time by which Weft waits. It is std::chrono::steady_clock, unless a test has put its own in its place
// (fiber/test_clock.h): deadlines, sleeps, timers and timed waits then follow that.
// Sample:
//   const auto begin = FiberClock::now();
//   Poll();
//   const bool slow = FiberClock::now() - begin > 1s;   // also right where a test lets an hour pass at once
//
// Its time points are std::chrono::steady_clock's. A program whose tests use a test clock asks FiberClock instead.
//
// Any thread and any fiber. Never switches. Cost: a load of a word that nobody writes, and a branch (4 instructions of
// the 326 that set a timer: bench/count/count.py).
// Rejected: a pointer to a clock in each group (a Deadline knows no group); an offset to the steady clock (time could
// not stand still); a clock for tests by a macro (the library tested would not be the one shipped).
#ifndef WEFT_BASE_FIBER_CLOCK_H_
#define WEFT_BASE_FIBER_CLOCK_H_

#include <atomic>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"

namespace weft {

namespace base {

// What the test clock shows, in ns since the steady clock's epoch; 0: there is none. Written by base/time/test_time.cc.
// relaxed, always: a fiber that a timer woke sees the time of that timer by what the wake-up carries.
inline constinit std::atomic<std::int64_t> test_time_ns{0};

// It changes only while no runtime runs.
inline bool HasTestTime() noexcept { return WEFT_UNLIKELY(test_time_ns.load(std::memory_order_relaxed) != 0); }

}  // namespace base

class FiberClock {
 public:
  // The types of std::chrono::steady_clock, so that both clocks' time points mix.
  using duration = std::chrono::steady_clock::duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::steady_clock::time_point;
  // It never goes back, also under a test clock.
  static constexpr bool is_steady = true;

  // The present. Any thread and any fiber; never switches.
  static time_point now() noexcept {
    const std::int64_t test_time = base::test_time_ns.load(std::memory_order_relaxed);
    if (WEFT_LIKELY(test_time == 0)) return std::chrono::steady_clock::now();
    return time_point(std::chrono::nanoseconds(test_time));
  }
};

}  // namespace weft

#endif  // WEFT_BASE_FIBER_CLOCK_H_
