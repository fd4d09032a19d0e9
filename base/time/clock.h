// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// std::chrono's durations, time points and clocks, without its calendars, and what Weft adds to them.
//
//   SaturatingNanoseconds   any duration in nanoseconds (std::chrono::duration_cast overflows for hours::max())
//   Clock                   where "now" comes from, so that tests of a class can set it
//
// Public headers include this: 6,000 lines, where libstdc++'s <chrono> has 31,000 (tests/headers/weight_test.py). A
// program that uses calendars or prints durations includes <chrono> itself.
#ifndef WEFT_BASE_TIME_CLOCK_H_
#define WEFT_BASE_TIME_CLOCK_H_

#include <cstdint>
#include <limits>
#include <ratio>
#include <version>  // __GLIBCXX__

#if defined(__GLIBCXX__) && __has_include(<bits/chrono.h>)
#include <bits/chrono.h>  // What libstdc++'s own <thread> and <mutex> include.
#else
#include <chrono>
#endif

namespace weft::base {

__extension__ typedef __int128 Int128;

constexpr std::int64_t SaturateToInt64(Int128 value) noexcept {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  return value >= kMax ? kMax : value <= kMin ? kMin : static_cast<std::int64_t>(value);
}

enum class Rounding { kUp, kDown };

// At most nanoseconds::max(), at least nanoseconds::min(). Rounds fractions of a nanosecond as told. NaN: 0.
template <Rounding rounding = Rounding::kUp, class Rep, class Period>
constexpr std::chrono::nanoseconds SaturatingNanoseconds(std::chrono::duration<Rep, Period> duration) noexcept {
  constexpr bool kUp = rounding == Rounding::kUp;
  if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
    const auto ns = std::chrono::duration<long double, std::nano>(duration).count();
    if (ns != ns) return std::chrono::nanoseconds(0);
    // Both limits are exact in a long double.
    constexpr auto kMax = static_cast<long double>(std::numeric_limits<std::int64_t>::max());
    constexpr auto kMin = static_cast<long double>(std::numeric_limits<std::int64_t>::min());
    if (ns >= kMax) return std::chrono::nanoseconds::max();
    if (ns <= kMin) return std::chrono::nanoseconds::min();
    std::int64_t whole = static_cast<std::int64_t>(ns);  // Towards zero.
    const auto exact = static_cast<long double>(whole);
    if (kUp && ns > exact) ++whole;
    if (!kUp && ns < exact) --whole;
    return std::chrono::nanoseconds(whole);
  } else {
    using Factor = std::ratio_divide<Period, std::nano>;
    static_assert(sizeof(Rep) <= sizeof(std::int64_t));
    // Below 2^127: both factors have 64 bits, and one of them a sign.
    const Int128 scaled = static_cast<Int128>(duration.count()) * Factor::num;
    Int128 whole = scaled / Factor::den;  // Towards zero.
    const Int128 exact = whole * Factor::den;
    if (kUp && scaled > exact) ++whole;
    if (!kUp && scaled < exact) --whole;
    return std::chrono::nanoseconds(SaturateToInt64(whole));
  }
}

class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  // Any thread.
  virtual TimePoint now() const noexcept = 0;

 protected:
  // Not virtual, so that the_steady_clock has no destructor: threads use it while the process exits.
  ~Clock() = default;
};

class SteadyClock final : public Clock {
 public:
  TimePoint now() const noexcept override { return std::chrono::steady_clock::now(); }

  static const SteadyClock& Get() noexcept;
};

inline constinit SteadyClock the_steady_clock;
inline const SteadyClock& SteadyClock::Get() noexcept { return the_steady_clock; }

}  // namespace weft::base

#endif  // WEFT_BASE_TIME_CLOCK_H_
