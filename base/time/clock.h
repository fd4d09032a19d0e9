// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Clock: where "now" comes from, so that tests can set it.
#ifndef WEFT_BASE_TIME_CLOCK_H_
#define WEFT_BASE_TIME_CLOCK_H_

#include "weft/base/time/clocks.h"

namespace weft::base {

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
