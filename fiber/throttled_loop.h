// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Throttler, ThrottledLoop: do something at most so many times a second, at a steady pace.
// Sample:
//   Throttler throttler(50);                           // a second; or Throttler(20ms)
//   while (throttler.Wait(10s)) Poll();                // ten seconds after each call it would give up
//   ThrottledLoop(50, [] { return Poll(); });          // until Poll() says false
//
// A throttler hands out turns: the first at once, each other an interval after the one before. A caller that comes late
// gets its turn at once, and the next turn is an interval after that: missed turns are not caught up, or `catch_up` of
// them at most. A caller that comes in time waits for its turn; how late it wakes up does not shift the turns that
// follow: the pace does not drift.
//
// Who may call: any fiber and any thread; several may share a throttler, and then share its rate. Wait() switches (a
// thread: blocks); when the turn is due already it lets others run.
// Memory ordering: none. A turn is a time, and carries nothing from the one that had the turn before.
// Lifetime: may be destroyed when all waits have returned. A wait that throws has had its turn: nobody else gets it.
//
// Invariants
//   TL1  No turn is taken before its time, and from the time of a turn to that of the (1 + catch_up)th after it is at
//        least an interval.
// Rejected: turns on a fixed grid, as Polyphony has them (a body that takes a little more than the interval runs at
// half the rate); a Stop() (then `false` would say one of two things: see docs/decisions/014).
#ifndef WEFT_FIBER_THROTTLED_LOOP_H_
#define WEFT_FIBER_THROTTLED_LOOP_H_

#include <atomic>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"

namespace weft {

class Throttler {
 public:
  // More than 0, and a number. The interval is rounded to a nanosecond.
  explicit Throttler(double per_second, std::uint32_t catch_up = 0);
  // More than 0.
  explicit Throttler(std::chrono::nanoseconds interval, std::uint32_t catch_up = 0);
  Throttler(const Throttler&) = delete;
  Throttler& operator=(const Throttler&) = delete;

  // True: it is the caller's turn. False, at once: the turn would come after the deadline, and is left to others.
  bool Wait(Deadline deadline = {});

  // From one turn to the next.
  std::chrono::nanoseconds interval() const noexcept { return std::chrono::nanoseconds(interval_); }

 private:
  const std::int64_t interval_;
  const std::int64_t allowance_;    // how far in the past a turn may be
  std::atomic<std::int64_t> next_;  // nanoseconds, by FiberClock
};

// Calls f() at most so many times a second, at least once, until f says false (if it returns nothing: never), or its
// next turn would come after the deadline. Waits as Throttler::Wait() does. Throws what f throws.
template <class F>
void ThrottledLoop(double per_second, F&& f, Deadline deadline = {}) {
  Throttler throttler(per_second);
  while (throttler.Wait(deadline)) {
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      f();
    } else {
      if (!f()) return;
    }
    // Wait() grants a turn that is due, however late it is: without this a loop that is always behind would not end.
    if (deadline.expired()) return;
  }
}

}  // namespace weft

#endif  // WEFT_FIBER_THROTTLED_LOOP_H_
