// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Deadline: how long a caller is willing to wait. Every function of Weft that can give up waiting takes one as its last
// argument, "none" by default. Any duration and any time point converts to it.
// Sample:
//   if (!event.Wait(5s)) return;                                      // a duration, from now
//   if (!event.Wait(std::chrono::system_clock::now() + 1h)) return;   // a time point
//   event.Wait();                                                     // no deadline
//   const Deadline deadline = 2s;                                     // one for several waits:
//   while (auto item = channel.Get(deadline)) Use(*item);             // waits two seconds at most
//
// What converts to what
//   nothing, None()            No deadline: it never expires.
//   a duration above 0         That long from where the argument is evaluated, by FiberClock (fiber_clock.h).
//   a duration of 0 or below   An expired deadline: the function makes one attempt and does not wait. NaN: the same.
//   a steady_clock time point  That time point; expired if it has passed.
//   another clock's            Converted once, by its distance from that clock's present. Setting the clock later does
//                              not move the deadline (only FiberSleepUntil() asks the clock again).
//   a value too far away       No deadline: a maximum, or beyond the steady clock's last time point in 292 years.
//
// Invariants
//   DL1  A deadline is never early. Fractions of a nanosecond are rounded up; another clock is read before the steady
//        one.
//   DL2  No arithmetic overflows. A value that does not fit is no deadline, or an expired one.
//
// Cost: 8 bytes, in a register. Converting a duration above 0 reads the steady clock, even if the function then need
// not wait; converting another clock's time point reads both clocks. try_lock_for() of the mutexes and
// FiberSemaphore::Acquire(duration) read the clock only if they have to wait.
//
// Rejected: a deadline that keeps the duration and reads the clock when the wait begins. `const Deadline deadline = 2s`
// would begin anew with each wait, and two deadlines could not be compared.
#ifndef WEFT_BASE_DEADLINE_H_
#define WEFT_BASE_DEADLINE_H_

#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"

namespace weft {

class Deadline {
 public:
  // The clock that a Deadline is kept by, also in FiberClock's time points.
  using TimePoint = std::chrono::steady_clock::time_point;

  // None.
  constexpr Deadline() noexcept : when_(TimePoint::max()) {}
  static constexpr Deadline None() noexcept { return Deadline(); }

  // `from_now` after the present, by FiberClock; 0 or below, or NaN: expired. Reads the clock if it is above 0.
  template <class Rep, class Period>
  Deadline(std::chrono::duration<Rep, Period> from_now) noexcept  // NOLINT: implicit.
      : when_(FromNow(base::SaturatingNanoseconds(from_now))) {}

  // At `at`, of any clock. Another clock than steady_clock is read now, and converted once.
  template <class Clock, class Duration, class = decltype(Clock::now())>
  constexpr Deadline(std::chrono::time_point<Clock, Duration> at) noexcept : when_(OnSteadyClock(at)) {}  // NOLINT

  // `duration` from `now`, for a caller that knows the time.
  template <class Rep, class Period>
  static constexpr Deadline After(std::chrono::duration<Rep, Period> duration, TimePoint now) noexcept {
    const std::chrono::nanoseconds by = base::SaturatingNanoseconds(duration);
    if (by == std::chrono::nanoseconds::max()) return None();  // Also before the clock's epoch.
    return Deadline(Later(now, by));
  }

  // Whether it never expires.
  constexpr bool is_none() const noexcept { return when_ == TimePoint::max(); }

  // Whether it has passed, at `now` or at present.
  constexpr bool expired(TimePoint now) const noexcept { return when_ <= now && !is_none(); }
  bool expired() const noexcept { return !is_none() && (when_ == kExpired || when_ <= FiberClock::now()); }

  // How long until it expires: 0 if it has, nanoseconds::max() if it is none.
  constexpr std::chrono::nanoseconds remaining(TimePoint now) const noexcept {
    if (is_none()) return std::chrono::nanoseconds::max();
    if (when_ <= now) return std::chrono::nanoseconds(0);
    const auto distance = static_cast<base::Int128>(when_.time_since_epoch().count()) - now.time_since_epoch().count();
    return std::chrono::nanoseconds(base::SaturateToInt64(distance));
  }
  std::chrono::nanoseconds remaining() const noexcept {
    if (is_none()) return std::chrono::nanoseconds::max();
    if (when_ == kExpired) return std::chrono::nanoseconds(0);
    return remaining(FiberClock::now());
  }

  // TimePoint::max() for none. TimePoint::min() for a duration of 0 or below.
  constexpr TimePoint time_point() const noexcept { return when_; }

  // The earlier one is less; none is the greatest.
  friend constexpr auto operator<=>(const Deadline&, const Deadline&) noexcept = default;  // NOLINT

 private:
  static_assert(std::is_same_v<TimePoint::duration, std::chrono::nanoseconds>);

  // Every duration of 0 or below: expired, whatever the time.
  static constexpr TimePoint kExpired = TimePoint::min();

  static constexpr TimePoint Later(TimePoint now, std::chrono::nanoseconds by) noexcept {
    std::int64_t sum;
    if (__builtin_add_overflow(now.time_since_epoch().count(), by.count(), &sum)) {
      return by.count() > 0 ? TimePoint::max() : TimePoint::min();
    }
    return TimePoint(std::chrono::nanoseconds(sum));
  }

  static TimePoint FromNow(std::chrono::nanoseconds duration) noexcept {
    if (duration.count() <= 0) return kExpired;
    if (duration == std::chrono::nanoseconds::max()) return TimePoint::max();
    return Later(FiberClock::now(), duration);
  }

  template <class Clock, class Duration>
  static constexpr TimePoint OnSteadyClock(std::chrono::time_point<Clock, Duration> at) noexcept {
    const std::chrono::nanoseconds since_epoch = base::SaturatingNanoseconds(at.time_since_epoch());
    if constexpr (std::is_same_v<Clock, std::chrono::steady_clock>) {
      return TimePoint(since_epoch);
    } else {
      if (since_epoch == std::chrono::nanoseconds::max()) return TimePoint::max();
      const std::chrono::nanoseconds now =
          base::SaturatingNanoseconds<base::Rounding::kDown>(Clock::now().time_since_epoch());
      const auto distance = static_cast<base::Int128>(since_epoch.count()) - now.count();
      // DL1: the steady clock after the other.
      return Later(FiberClock::now(), std::chrono::nanoseconds(base::SaturateToInt64(distance)));
    }
  }

  TimePoint when_;
};

static_assert(std::is_trivially_copyable_v<Deadline> && sizeof(Deadline) == sizeof(std::int64_t));

}  // namespace weft

#endif  // WEFT_BASE_DEADLINE_H_
