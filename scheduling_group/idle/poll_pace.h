// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollPace: when a worker that is never idle polls for input and output. Each worker has one, and alone uses it.
//
// Reading the clock costs as much as a short fiber, so a worker reads it once in so many fibers. That number doubles
// while readings come sooner than kPollEvery / 2, and falls to what fits into kPollEvery when one comes later.
//
// Invariants
//   PP1  From one poll to the next a worker takes at most kMostPopsPerPoll fibers.
//   PP2  After a poll that came later than kPollEvery, the next one comes after as many fibers as would have taken
//        kPollEvery, at least one. (Halving the number each time would first run twice as many fibers, and long ones.)
#ifndef WEFT_SCHEDULING_GROUP_IDLE_POLL_PACE_H_
#define WEFT_SCHEDULING_GROUP_IDLE_POLL_PACE_H_

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/idle/idle_poller.h"

namespace weft::scheduling_group {

class PollPace {
 public:
  static constexpr std::chrono::microseconds kPollEvery{20};
  static constexpr std::uint32_t kMostPopsPerPoll = 64;

  // Before the worker takes a fiber. True: the worker must first call Poll().
  [[nodiscard]] WEFT_ALWAYS_INLINE bool CountPop() noexcept { return --pops_until_poll_ == 0; }

  // nullptr: the group has no poller yet, but soon there may be one.
  void Poll(IdlePoller* poller) {
    if (poller == nullptr) {
      pops_until_poll_ = kMostPopsPerPoll / 8;
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    OnPoll(now);
    poller->PollIfDue(now);
  }

  void OnPoll(std::chrono::steady_clock::time_point now) noexcept {
    const auto since = now - last_poll_at_;
    last_poll_at_ = now;
    if (since < kPollEvery / 2) pops_per_poll_ = std::min(pops_per_poll_ * 2, kMostPopsPerPoll);
    if (since > kPollEvery) {
      pops_per_poll_ = std::max(static_cast<std::uint32_t>(pops_per_poll_ * kPollEvery / since), 1u);
    }
    pops_until_poll_ = pops_per_poll_;
  }

 private:
  std::uint32_t pops_until_poll_ = 1;
  std::uint32_t pops_per_poll_ = 1;
  std::chrono::steady_clock::time_point last_poll_at_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_POLL_PACE_H_
