// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RetryPace: when to try timers again whose fiber was refused.
//
// The first retry comes after kShortestDelay. The delay doubles, up to kLongestDelay, until a fiber is started, and
// then begins anew. Timers refused together are spread, a thousand to a delay: 62,500 tries a second at the longest, of
// some 1,500,000 that a thread can make. No retry is later than kLatest. Used by the timer thread only.
#ifndef WEFT_TIMER_WORKER_RETRY_PACE_H_
#define WEFT_TIMER_WORKER_RETRY_PACE_H_

#include <algorithm>
#include <chrono>

#include "weft/base/time/clock.h"

namespace weft::timer {

class RetryPace {
 public:
  using TimePoint = base::Clock::TimePoint;

  static constexpr std::chrono::nanoseconds kShortestDelay = std::chrono::milliseconds(1);
  static constexpr std::chrono::nanoseconds kLongestDelay = std::chrono::milliseconds(16);
  static constexpr std::chrono::nanoseconds kLatest = std::chrono::seconds(1);
  static constexpr int kTriesPerDelay = 1000;

  // A fiber was refused at `now`. Returns when to try its timer again.
  TimePoint Next(TimePoint now) noexcept {
    if (!refusing_ || now >= grows_at_) {
      delay_ = refusing_ ? std::min(2 * delay_, kLongestDelay) : kShortestDelay;
      grows_at_ = now + delay_;
      refusing_ = true;
    }
    const TimePoint at = std::min(std::max(next_, now + delay_), now + kLatest);
    next_ = at + delay_ / kTriesPerDelay;
    return at;
  }

  // After Next(now), if memory was refused: asking for it costs system calls, so it is not asked for during the delay.
  void OnNoMemory(TimePoint now) noexcept {
    no_memory_ = true;
    ask_again_at_ = now + delay_;
  }
  bool no_memory() const noexcept { return no_memory_; }
  bool MayAskForMemory(TimePoint now) const noexcept { return !no_memory_ || now >= ask_again_at_; }

  // A fiber was started.
  void OnStarted() noexcept { refusing_ = no_memory_ = false; }

 private:
  bool refusing_ = false;
  bool no_memory_ = false;
  std::chrono::nanoseconds delay_ = kShortestDelay;
  TimePoint grows_at_;
  TimePoint ask_again_at_;
  TimePoint next_;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_WORKER_RETRY_PACE_H_
