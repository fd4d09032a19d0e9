// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Housekeeping: memory goes back to the OS when things have gone quiet, and an idle process is left alone.
//
//            Request()             `period` without a Request(), or kPostponeAtMost periods
//     off ----------------> on -----------------------------------------------------------> trim
//      ^                     ^                                                               |
//      |                     +------------------------ something is left --------------------+
//      +---------------------------------------------- nothing is left ----------------------+
//
// Whoever has memory that might go back calls Request(): when a pool has grown, or got something back that it need not
// keep, or a worker has nothing to do. It is meant for slow paths: a fence and a load if one is pending already. The
// timer thread does the rest.
//
// Invariants
//   HK1  After each Request() there is a trim that sees what the requester did before it. There are two cases:
//        activity_ was clear:  the requester sets it, full fence, looks at next_ and turns on what is off
//                              the timer thread, turning off, clears next_, full fence, looks at activity_
//        activity_ was set:    the requester has freed memory, full fence, found it set, and relies on who set it
//                              the timer thread clears it, full fence, trims at once or later
//        Of each pair of fences one comes first, and then the other side sees what stands before it.
//   HK2  While off the timer thread is not woken.
//   HK3  Steady activity postpones a trim by kPostponeAtMost periods and no more: what a burst left behind does not
//        stay for ever under a light load.
// Checked for all interleavings in tests/timer/alarm_model.cc.
#ifndef WEFT_TIMER_HOUSEKEEPING_H_
#define WEFT_TIMER_HOUSEKEEPING_H_

#include <algorithm>
#include <atomic>

#include "weft/base/atomic.h"
#include "weft/timer/alarm.h"
#include "weft/timer/tick.h"

namespace weft::timer {

class Housekeeping {
 public:
  static constexpr int kPostponeAtMost = 10;
  // A trim is done in parts, so that timers are not kept waiting: 10 ms, of which a part takes about half.
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

  // When the timer thread must call RunIfDue(). Any thread; as TimerShard::next().
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
      next_.store(now + period_, std::memory_order_relaxed);  // Nobody else changes it while it is not kNever.
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
      // relaxed: as in Request(). No announcement: this is the thread that would get it.
      next_.compare_exchange_strong(off, kAtOnce, std::memory_order_relaxed, std::memory_order_relaxed);
    }
  }

  // While nothing else runs.
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
  // The first look is at once: it only starts the clock, so that who requests need not read it.
  static constexpr Tick kAtOnce = 1;

  Alarm* const alarm_;
  Tick period_ = 1;
  int postpone_at_most_ = kPostponeAtMost;
  base::Atomic<Tick> next_{kNever};
  base::Atomic<bool> activity_{false};
  // The timer thread's.
  bool on_ = false;
  bool in_parts_ = false;  // a trim has begun and there is more to do
  int postponed_ = 0;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_HOUSEKEEPING_H_
