// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/rate_limiter.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {
namespace {

constexpr double kSecond = 1e9;          // in ns
constexpr std::int64_t kLongest = 1e18;  // ns: no sum of two of them overflows

std::int64_t IntervalOf(double per_second) {
  // Also false for NaN.
  WEFT_CHECK(per_second >= 1 / kSecond && per_second <= kSecond, "RateLimiter: per_second is ", per_second);
  return static_cast<std::int64_t>(std::ceil(kSecond / per_second));
}

std::int64_t ToleranceOf(std::int64_t interval, std::int64_t burst) {
  WEFT_CHECK(burst >= 1 && burst <= kLongest / interval, "RateLimiter: burst is ", burst, ", at ", interval,
             " ns for one unit");
  return interval * burst;
}

std::int64_t Now() noexcept { return std::chrono::nanoseconds(FiberClock::now().time_since_epoch()).count(); }

}  // namespace

RateLimiter::RateLimiter(const Options& options)
    : interval_(IntervalOf(options.per_second)), tolerance_(ToleranceOf(interval_, options.burst)) {}

std::int64_t RateLimiter::Reserve(std::int64_t n, std::int64_t now, std::int64_t latest) noexcept {
  WEFT_CHECK(n >= 0, "RateLimiter: ", n, " units");
  std::int64_t cost = 0;
  if (__builtin_mul_overflow(interval_, n, &cost)) return kNever;
  // relaxed, here and below: it only counts. The exchanges have one order, which is that of the turns.
  std::int64_t earned = earned_.load(std::memory_order_relaxed);
  for (;;) {
    std::int64_t after = 0;
    if (__builtin_add_overflow(std::max(earned, now), cost, &after)) return kNever;
    const std::int64_t turn = after - tolerance_;  // `after` is at least `now`, not far before the clock's epoch.
    if (turn > latest) return kNever;
    if (earned_.compare_exchange_weak(earned, after, std::memory_order_relaxed)) return turn;
  }
}

bool RateLimiter::TryAcquire(std::int64_t n) noexcept {
  const std::int64_t now = Now();
  return Reserve(n, now, now) != kNever;
}

void RateLimiter::Acquire(std::int64_t n) {
  synchronization::BeginCancellationPoint();
  const std::int64_t now = Now();
  const std::int64_t turn = Reserve(n, now, kNever - 1);
  if (turn == kNever) FiberSleepUntil(Deadline::None());
  if (turn > now) SleepUntil(turn, n);
}

bool RateLimiter::Acquire(std::int64_t n, Deadline deadline) {
  synchronization::BeginCancellationPoint();
  const std::int64_t now = Now();
  const std::int64_t last = std::chrono::nanoseconds(deadline.time_point().time_since_epoch()).count();
  const std::int64_t turn = Reserve(n, now, std::clamp(last, now, kNever - 1));
  if (turn == kNever) return false;
  if (turn > now) SleepUntil(turn, n);
  return true;
}

void RateLimiter::SleepUntil(std::int64_t turn, std::int64_t n) {
  try {
    FiberSleepUntil(Deadline(Deadline::TimePoint(std::chrono::nanoseconds(turn))));
  } catch (...) {
    // What others reserve after that time begins at `now`: the units could be had twice. So the exchange is of a value
    // that was there while the turn was still to come.
    std::int64_t earned = earned_.load(std::memory_order_relaxed);
    while (Now() < turn && !earned_.compare_exchange_weak(earned, earned - interval_ * n, std::memory_order_relaxed)) {
    }
    throw;
  }
}

}  // namespace weft
