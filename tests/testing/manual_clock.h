// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ManualClock: time that passes only when the test says so.  Any thread may read and set it.
#ifndef WEFT_TESTS_TESTING_MANUAL_CLOCK_H_
#define WEFT_TESTS_TESTING_MANUAL_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "weft/base/time/clock.h"

namespace weft::testing {

class ManualClock final : public base::Clock {
 public:
  // Starts at a time that is neither the epoch nor a round number of any unit.
  explicit ManualClock(TimePoint start = TimePoint(std::chrono::nanoseconds(1'234'567'890'123'456)))
      : now_ns_(start.time_since_epoch().count()) {}

  TimePoint now() const noexcept override {
    // acquire: a reader of the new time sees what the test did before it.  Pairs with the release in Set() and
    // Advance().
    return TimePoint(std::chrono::nanoseconds(now_ns_.load(std::memory_order_acquire)));
  }

  void Set(TimePoint now) { now_ns_.store(now.time_since_epoch().count(), std::memory_order_release); }

  // Returns the new time.
  TimePoint Advance(std::chrono::nanoseconds by) {
    return TimePoint(std::chrono::nanoseconds(now_ns_.fetch_add(by.count(), std::memory_order_acq_rel)) + by);
  }

 private:
  std::atomic<std::int64_t> now_ns_;
};

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_MANUAL_CLOCK_H_
