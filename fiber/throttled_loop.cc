// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/throttled_loop.h"

#include <algorithm>
#include <cmath>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/time/clock.h"
#include "weft/fiber/this_fiber.h"

namespace weft {

namespace {

using std::chrono::nanoseconds;

std::int64_t NowInNanoseconds() { return nanoseconds(FiberClock::now().time_since_epoch()).count(); }

nanoseconds IntervalOf(double per_second) {
  WEFT_CHECK(per_second > 0 && std::isfinite(per_second), "Throttler: ", per_second, " turns a second cannot be");
  constexpr double kLongest = 9e18;  // Fits, and is 285 years.
  return nanoseconds(std::max<std::int64_t>(1, std::llround(std::min(1e9 / per_second, kLongest))));
}

}  // namespace

Throttler::Throttler(double per_second, std::uint32_t catch_up) : Throttler(IntervalOf(per_second), catch_up) {}

Throttler::Throttler(nanoseconds interval, std::uint32_t catch_up)
    : interval_(interval.count()),
      allowance_(base::SaturateToInt64(static_cast<base::Int128>(interval.count()) * catch_up)),
      next_(NowInNanoseconds()) {
  WEFT_CHECK(interval.count() > 0, "Throttler: an interval of ", interval.count(), " ns cannot be");
}

bool Throttler::Wait(Deadline deadline) {
  const std::int64_t now = NowInNanoseconds();
  // relaxed, all of them: a turn is a time and carries nothing else.
  std::int64_t next = next_.load(std::memory_order_relaxed);
  std::int64_t turn;
  FiberClock::time_point time_of_turn;
  do {
    turn = std::max(next, base::SaturateToInt64(static_cast<base::Int128>(now) - allowance_));
    time_of_turn = FiberClock::time_point(nanoseconds(turn));
    if (turn > now && deadline.time_point() < time_of_turn) return false;
  } while (!next_.compare_exchange_weak(next, base::SaturateToInt64(static_cast<base::Int128>(turn) + interval_),
                                        std::memory_order_relaxed));
  FiberSleepUntil(Deadline(time_of_turn));  // A cancellation point, and others run, also where it is over at once.
  return true;
}

}  // namespace weft
