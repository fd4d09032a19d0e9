// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Deadline: a point in time at which to give up, or never.  Clock: where "now" comes from, so that tests can set it.
//
// All arithmetic saturates: Deadline::After(std::chrono::hours::max()) is infinite, not in the past, and a duration of
// any ratio and representation may be given.  Fractions of a nanosecond are rounded up: a deadline is never early.
//
// A time point of another clock (system_clock) is converted once, by how far it is from that clock's now; setting the
// clock later does not move it.

#ifndef WEFT_BASE_CLOCK_H_
#define WEFT_BASE_CLOCK_H_

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace weft::base {

namespace clock_internal {

__extension__ typedef __int128 Int128;

inline constexpr std::int64_t kMaxNs = std::numeric_limits<std::int64_t>::max();
inline constexpr std::int64_t kMinNs = std::numeric_limits<std::int64_t>::min();

constexpr std::int64_t Clamp(Int128 ns) noexcept {
  return ns >= kMaxNs ? kMaxNs : ns <= kMinNs ? kMinNs : static_cast<std::int64_t>(ns);
}

}  // namespace clock_internal

// Any duration in nanoseconds, rounded up, at most nanoseconds::max() and at least nanoseconds::min().  Not a number:
// 0.
template <class Rep, class Period>
constexpr std::chrono::nanoseconds SaturatingNanoseconds(std::chrono::duration<Rep, Period> duration) noexcept {
  using clock_internal::Int128;
  if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
    const auto ns = std::chrono::duration<long double, std::nano>(duration).count();
    if (ns != ns) return std::chrono::nanoseconds(0);
    if (ns >= static_cast<long double>(clock_internal::kMaxNs)) return std::chrono::nanoseconds::max();
    if (ns <= static_cast<long double>(clock_internal::kMinNs)) return std::chrono::nanoseconds::min();
    const auto whole = static_cast<std::int64_t>(ns);
    return std::chrono::nanoseconds(whole + (ns > static_cast<long double>(whole) ? 1 : 0));
  } else {
    using Factor = std::ratio_divide<Period, std::nano>;
    static_assert(sizeof(Rep) <= sizeof(std::int64_t));
    const Int128 scaled =
        static_cast<Int128>(duration.count()) * Factor::num;  // Below 2^127: both factors are 64 bits.
    const Int128 whole = scaled / Factor::den;
    return std::chrono::nanoseconds(clock_internal::Clamp(whole + (scaled > whole * Factor::den ? 1 : 0)));
  }
}

class Deadline {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr Deadline Infinite() noexcept { return Deadline(TimePoint::max()); }

  // `duration` from `now`.
  template <class Rep, class Period>
  static constexpr Deadline After(std::chrono::duration<Rep, Period> duration, TimePoint now) noexcept {
    const clock_internal::Int128 sum =
        static_cast<clock_internal::Int128>(now.time_since_epoch().count()) + SaturatingNanoseconds(duration).count();
    return Deadline(TimePoint(std::chrono::nanoseconds(clock_internal::Clamp(sum))));
  }
  template <class Rep, class Period>
  static Deadline After(std::chrono::duration<Rep, Period> duration) noexcept {
    return After(duration, std::chrono::steady_clock::now());
  }

  // A point in time of any clock.  That clock's time_point::max() is infinite.
  template <class AnyClock, class Duration>
  static Deadline At(std::chrono::time_point<AnyClock, Duration> when) noexcept {
    const std::chrono::nanoseconds since_epoch = SaturatingNanoseconds(when.time_since_epoch());
    if constexpr (std::is_same_v<AnyClock, std::chrono::steady_clock>) {
      return Deadline(TimePoint(since_epoch));
    } else {
      if (since_epoch == std::chrono::nanoseconds::max()) return Infinite();
      const auto now = SaturatingNanoseconds(AnyClock::now().time_since_epoch());
      const clock_internal::Int128 distance = static_cast<clock_internal::Int128>(since_epoch.count()) - now.count();
      return After(std::chrono::nanoseconds(clock_internal::Clamp(distance)));
    }
  }

  // Infinite.
  constexpr Deadline() noexcept : Deadline(TimePoint::max()) {}

  constexpr bool is_infinite() const noexcept { return when_ == TimePoint::max(); }
  constexpr bool expired(TimePoint now) const noexcept { return when_ <= now && !is_infinite(); }
  bool expired() const noexcept { return !is_infinite() && expired(std::chrono::steady_clock::now()); }
  // TimePoint::max() if infinite.
  constexpr TimePoint time_point() const noexcept { return when_; }

  friend constexpr auto operator<=>(const Deadline&, const Deadline&) noexcept = default;

 private:
  static_assert(std::is_same_v<TimePoint::duration, std::chrono::nanoseconds>);
  explicit constexpr Deadline(TimePoint when) noexcept : when_(when) {}

  TimePoint when_;
};

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Any thread.
  virtual TimePoint now() const noexcept = 0;

 protected:
  ~Clock() =
      default;  // Not virtual, so that the_steady_clock has no destructor: threads use it while the process exits.
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }

  // The one that everybody can share.
  static const SteadyClock& Get() noexcept;
};

inline constinit SteadyClock the_steady_clock;
inline const SteadyClock& SteadyClock::Get() noexcept { return the_steady_clock; }

}  // namespace weft::base

#endif  // WEFT_BASE_CLOCK_H_
