// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What wakes the timer thread: the next timer, and none that is armed earlier is missed (Alarm); memory to give back to
// the OS when activity has ended, which then leaves an idle process asleep (Housekeeping).
//
//   timer thread: Sleep()                        any thread: arms a timer, then Announce(tick)
//   ---------------------                        ---------------------------------------------
//   until = what is due first                    publish the timer (shard: next = tick)
//   publish `sleeping_until_` = until            full fence
//   full fence                                   look at sleeping_until_: later than tick?
//   look again: anything before `until`?            yes: claim it (set kAwake), unpark the thread
//      no: sleep until then, or until unparked      no: the thread will see the timer in time
//
// Invariants
//   AL1  No wake-up is lost. Of the two fences one comes first: if the thread's, the armer sees sleeping_until_; if the
//        armer's, the thread's second look sees the timer.
//   AL2  However many threads arm an earlier timer, one makes the system call: the one whose compare-and-swap sets
//        kAwake. The others read kAwake from that write, hence their fences precede the timer thread's next
//        publication, and AL1 covers them.
//   AL3  An armer whose timer is due after `until` costs the thread nothing, and itself one fence and one load.
//   AL4  With nothing to wait for the thread sleeps for good: no periodic wake-up.
//   AL5  A thread that sleeps elsewhere (SleepElsewhere() to WakeUp()) is woken by its `end`, instead of its parker, as
//        often as AL2 says. A call that comes late must be harmless.
// Sleep(), SleepElsewhere(), WakeUp(): the timer thread. Announce(): any thread, after it published what it announces.
// Rejected: an unconditional unpark by each armer (a futex call per sleep; 100,000 sleepers wake the thread 100,000
// times); a mutex and a condition variable (the armer may have to wait for the timer thread).
//
// Housekeeping gives memory back when activity has ended:
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
// Both are checked for all interleavings in tests/timer/alarm_model.cc.
#ifndef WEFT_TIMER_WORKER_ALARM_H_
#define WEFT_TIMER_WORKER_ALARM_H_

#include <algorithm>
#include <atomic>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

class Alarm {
 public:
  // `look()` returns the first tick at which something is due, kNever if nothing is. Sleep() returns when that tick has
  // begun, when an earlier one was announced, and sometimes spuriously.
  template <class Look>
  void Sleep(Look&& look) noexcept {
    const Tick until = look();
    // relaxed: the value is the whole message.
    sleeping_until_.store(until, std::memory_order_relaxed);
    // StoreLoad (AL1). Pairs with the fence in Announce().
    base::ThreadFence(std::memory_order_seq_cst);
    if (look() >= until) {
      if (until == kNever) {
        parker_.Park();
      } else {
        static_cast<void>(parker_.ParkUntil(BeginOfTick(until)));
      }
    }
    // relaxed: an armer that still reads `until` unparks us once in vain.
    sleeping_until_.store(kAwake, std::memory_order_relaxed);
  }

  // For a thread that sleeps in a way of its own until the tick that this returns, the first of `look`, or until
  // end(argument) is called, which ends such a sleep (SleepsElsewhere()). It calls WakeUp() afterwards.
  template <class Look>
  Tick SleepElsewhere(Look&& look) noexcept {
    sleeping_until_.store(look(), std::memory_order_relaxed);  // relaxed: as in Sleep().
    base::ThreadFence(std::memory_order_seq_cst);              // StoreLoad (AL1). Pairs with the fence in Announce().
    return look();
  }
  void WakeUp() noexcept { sleeping_until_.store(kAwake, std::memory_order_relaxed); }  // relaxed: as in Sleep().

  // Any thread, for reports: the timer thread sleeps, or is about to. relaxed: the value is all.
  bool asleep() const noexcept { return sleeping_until_.load(std::memory_order_relaxed) != kAwake; }

  // While nobody sleeps or announces. `end` is the same for all threads of this alarm that sleep so, and may be called
  // until the process ends. argument: nullptr: the thread sleeps here.
  void SleepsElsewhere(void (*end)(void* argument) noexcept, void* argument) noexcept {
    if (end_ == nullptr) end_ = end;
    elsewhere_.store(argument, std::memory_order_release);  // end_. Pairs with the acquire in Announce().
  }

  void Announce(Tick tick) noexcept {
    // StoreLoad (AL1). Pairs with the fence in Sleep().
    base::ThreadFence(std::memory_order_seq_cst);
    Tick until = sleeping_until_.load(std::memory_order_relaxed);  // The fence orders it.
    while (tick < until) {
      // relaxed: the timer is guarded by its shard's lock. The claim only has to be unique (AL2).
      if (sleeping_until_.compare_exchange_weak(until, kAwake, std::memory_order_relaxed, std::memory_order_relaxed)) {
        // acquire: pairs with the release in SleepsElsewhere().
        if (void* const elsewhere = elsewhere_.load(std::memory_order_acquire)) {
          end_(elsewhere);  // AL5
        } else {
          parker_.Unpark();
        }
        return;
      }
    }
  }

 private:
  // Before every tick that can be announced, so no armer wakes the thread.
  static constexpr Tick kAwake = 0;

  base::Atomic<Tick> sleeping_until_{kAwake};
  base::Parker parker_;
  void (*end_)(void* argument) noexcept = nullptr;
  base::Atomic<void*> elsewhere_{nullptr};
};

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

#endif  // WEFT_TIMER_WORKER_ALARM_H_
