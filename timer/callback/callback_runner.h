// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CallbackRunner: runs callback timers, from when they are due until armed again or ended. Each timer thread has one.
//
//   FireCallback   under the shard's lock: kArmed -> kFiring; the entry goes into the batch of the timer thread
//   RunDue         the batch, without the lock: starts a fiber for each callback, or runs it on the timer thread
//   the fiber      kFiring -> kRunning; runs the callable where it lies; then ends the entry or arms it again
//
// Invariants
//   CB2  Once KillCallbackTimer() has returned no run begins: runs begin, and timers are killed, under the lock.
//   CB3  A periodic timer is armed again after the end of a run. So runs never overlap, missed runs are skipped, and
//        the rhythm remains that of the first expiry.
//   CB4  Neither the timer thread nor a callback on it waits for room in a run queue: fibers that a callback starts
//        while the queue is full go into the overflow list (current_worker.h). A timer for whose fiber there is no
//        room or memory is armed again for a little later (RetryPace); it is never lost.
#ifndef WEFT_TIMER_CALLBACK_CALLBACK_RUNNER_H_
#define WEFT_TIMER_CALLBACK_CALLBACK_RUNNER_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/base/time/clock.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/timer/queue/timer_slab.h"

namespace weft::timer {

struct CallbackType;

// When to try timers again whose fiber was refused. The first retry comes after kShortestDelay. The delay doubles, up
// to kLongestDelay, until a fiber is started, and then begins anew. Timers refused together are spread, a thousand to a
// delay: 62,500 tries a second at the longest, of some 1,500,000 that a thread can make. No retry is later than
// kLatest. Used by the timer thread only.
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

class CallbackRunner {
 public:
  // Fibers start in `group`; nullptr: no timer needs one.
  explicit CallbackRunner(scheduling_group::SchedulingGroup* group) : group_(group) {}
  CallbackRunner(const CallbackRunner&) = delete;
  CallbackRunner& operator=(const CallbackRunner&) = delete;

  // The timer thread, without a lock: runs the callbacks that belong on this thread, and starts fibers for the others.
  void RunDue(TimerEntry* const* entries, std::size_t count);

  // Any thread. The type of the callback that runs on the timer thread now; nullptr: none. relaxed: for a log line, and
  // the type is a constant.
  const CallbackType* running() const noexcept { return running_.load(std::memory_order_relaxed); }

 private:
  scheduling_group::SchedulingGroup* const group_;
  RetryPace pace_;
  std::atomic<const CallbackType*> running_{nullptr};
};

// The time of a periodic timer's next run: the first in its rhythm after now and after `expires_ns`. Saturates; the
// last time point never comes. `interval_ns` is above zero.
std::int64_t NextExpiry(std::int64_t expires_ns, std::int64_t interval_ns, base::Clock::TimePoint now) noexcept;

// Statistics: fibers refused since the process began.
std::uint64_t RefusedCallbackFibers() noexcept;

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_CALLBACK_RUNNER_H_
