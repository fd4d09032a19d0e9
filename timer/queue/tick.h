// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Ticks: the time of timers. Tick n begins n * 2^15 ns (32.8 us) after the steady clock's epoch.
//
//   TK1  A deadline is rounded up and the present is rounded down, so a timer whose tick has been reached is due: never
//        early, and late by less than one tick plus the delays of the machine.
//   TK2  Every time point has a tick: those before the epoch have tick 0, and the last one, kLastTick, begins in 292
//        years. A deadline in or after that (Deadline::None()) never comes.
//   TK3  Under a test clock (base/time/test_time.h) a tick is one nanosecond, and the timers lie in an ExactQueue,
//        which takes any tick: Deadline::None() is kNever. It is set from before the first timer until after the last.
//
// Why 2^15 ns: a shift converts it, and it is less than a futex wake-up takes on a busy machine. Rejected: 1 ms (a
// sleep of 100 us would take ten times as long); 1 us (two levels more, and no machine wakes a thread so precisely).
#ifndef WEFT_TIMER_QUEUE_TICK_H_
#define WEFT_TIMER_QUEUE_TICK_H_

#include <cstdint>

#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"

namespace weft::timer {

using Tick = std::uint64_t;

inline constexpr int kTickShift = 15;
inline constexpr int kTickBits = 48;
inline constexpr Tick kLastTick = (Tick{1} << kTickBits) - 1;
// Later than every tick: there is nothing to wait for.
inline constexpr Tick kNever = ~Tick{0};

// The tick at which a timer with this deadline may fire.
inline Tick TickOfDeadline(std::chrono::steady_clock::time_point deadline) noexcept {
  const std::int64_t nanoseconds =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  if (nanoseconds <= 0) return 0;
  if (base::HasTestTime()) {
    return deadline == std::chrono::steady_clock::time_point::max() ? kNever : static_cast<Tick>(nanoseconds);
  }
  const Tick tick = (static_cast<Tick>(nanoseconds) + ((Tick{1} << kTickShift) - 1)) >> kTickShift;
  return tick < kLastTick ? tick : kLastTick;
}

// The tick that `now` lies in.
inline Tick TickOfNow(std::chrono::steady_clock::time_point now) noexcept {
  const std::int64_t nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  if (nanoseconds <= 0) return 0;
  return static_cast<Tick>(nanoseconds) >> (base::HasTestTime() ? 0 : kTickShift);
}

// When `tick` begins; time_point::max() for kNever.
inline std::chrono::steady_clock::time_point BeginOfTick(Tick tick) noexcept {
  if (base::HasTestTime() && tick != kNever) {
    return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(tick)));
  }
  if (tick > kLastTick) return std::chrono::steady_clock::time_point::max();
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(static_cast<std::int64_t>(tick << kTickShift)));
}

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_TICK_H_
