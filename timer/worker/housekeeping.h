// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Housekeeping: gives memory back to the OS when activity has ended, and then leaves an idle process asleep.
//
//            Request()             `period` without a Request(), or kPostponeAtMost periods
//     off ----------------> on -----------------------------------------------------------> trim
//      ^                     ^                                                               |
//      |                     +------------------------ something is left --------------------+
//      +---------------------------------------------- nothing is left ----------------------+
//
// A thread with memory to give back calls Request(): when a pool has grown or got more back than it keeps, or a worker
// has nothing to do. It is for slow paths: a fence and a load if a request is pending. The timer thread does the rest.
//
// Invariants
//   HK1  After each Request() comes a trim that sees what the requester did before it. There are two cases: activity_
//        was clear: the requester sets it, full fence, looks at next_, turns it on if it is off
//                              the timer thread, turning off, clears next_, full fence, looks at activity_
//        activity_ was set:    the requester has freed memory, full fence, found it set, and relies on its setter
//                              the timer thread clears it, full fence, trims at once or later
//        One of each pair of fences comes first, and the other side sees what was stored before it.
//   HK2  While it is off, it does not wake the timer thread.
//   HK3  Steady activity postpones a trim by at most kPostponeAtMost periods: memory of a burst does not stay for ever.
// Checked for all interleavings in tests/timer/alarm_model.cc.
#ifndef WEFT_TIMER_WORKER_HOUSEKEEPING_H_
#define WEFT_TIMER_WORKER_HOUSEKEEPING_H_

#include <algorithm>
#include <atomic>

#include "weft/base/thread/atomic.h"
#include "weft/timer/callback/alarm.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

class Housekeeping {
 public:
  static constexpr int kPostponeAtMost = 10;
  // A trim is done in parts, so that timers do not wait for it. A part takes about half of these 10 ms.
  static constexpr Tick kPauseBetweenParts = 10'000'000 >> kTickShift;

  explicit Housekeeping(Alarm* alarm) : alarm_(alarm) {}
  Housekeeping(const Housekeeping&) = delete;
  Housekeeping& operator=(const Housekeeping&) = delete;

  // Any thread.
  void Request() noexcept {
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (HK1). Pairs with the first fence in RunIfDue().
    if (activity_.load(std::memory_order_relaxed)) return;  // The fence orders it.
    activity_.store(true, std::memory_order_relaxed);       // As above.
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (HK1). Pairs with the second fence in RunIfDue().
    Tick off = kNever;
    // relaxed: the value is the whole message.
    if (next_.compare_exchange_strong(off, kAtOnce, std::memory_order_relaxed, std::memory_order_relaxed)) {
      alarm_->Announce(kAtOnce);
    }
  }

  // The tick at which the timer thread must call RunIfDue(). Any thread; as TimerShard::next().
  Tick next() const noexcept { return next_.load(std::memory_order_relaxed); }

  // The timer thread. `trim()` returns how much is left to do.
  template <class Trim>
  void RunIfDue(Tick now, Trim&& trim) {
    if (next() > now) return;
    const bool activity = activity_.exchange(false, std::memory_order_relaxed);  // The fence orders it.
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (HK1). Pairs with the first fence in Request().
    const bool postpone = !on_ || (activity && !in_parts_ && ++postponed_ < postpone_at_most_);
    on_ = true;
    if (postpone) {
      next_.store(now + period_, std::memory_order_relaxed);  // No other thread changes it while it is not kNever.
      return;
    }
    postponed_ = 0;
    in_parts_ = trim() != 0;
    if (in_parts_) {
      const Tick pause = activity ? std::max(period_ / 10, Tick{1}) : std::min(period_, kPauseBetweenParts);
      next_.store(now + pause, std::memory_order_relaxed);  // As above.
      return;
    }
    on_ = false;
    next_.store(kNever, std::memory_order_relaxed);  // The fence orders it.
    base::ThreadFence(std::memory_order_seq_cst);    // StoreLoad (HK1). Pairs with the second fence in Request().
    Tick off = kNever;
    if (activity_.load(std::memory_order_relaxed)) {
      // relaxed: as in Request(). No announcement: it would go to this thread.
      next_.compare_exchange_strong(off, kAtOnce, std::memory_order_relaxed, std::memory_order_relaxed);
    }
  }

  // While no other thread uses it.
  void Reset(Tick period, int postpone_at_most = kPostponeAtMost) noexcept {
    period_ = period;
    postpone_at_most_ = postpone_at_most;
    next_.store(kNever, std::memory_order_relaxed);
    activity_.store(false, std::memory_order_relaxed);
    on_ = false;
    in_parts_ = false;
    postponed_ = 0;
  }

 private:
  // The first visit comes at once, and only starts the clock, so that requesters need not read it.
  static constexpr Tick kAtOnce = 1;

  Alarm* const alarm_;
  Tick period_ = 1;
  int postpone_at_most_ = kPostponeAtMost;
  base::Atomic<Tick> next_{kNever};
  base::Atomic<bool> activity_{false};
  // Used by the timer thread only.
  bool on_ = false;
  bool in_parts_ = false;  // a trim has begun and there is more to do
  int postponed_ = 0;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_WORKER_HOUSEKEEPING_H_
