// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Alarm: the timer thread sleeps until the next timer is due, and misses no earlier one that is armed meanwhile.
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
//   AL5  A thread that sleeps elsewhere (SleepElsewhere() to WakeUp()) is woken by its `end`, instead of its parker, as
//        often as AL2 says. A call that comes late must be harmless.
//   AL4  With nothing to wait for the thread sleeps for good: no periodic wake-up.
// Sleep(), SleepElsewhere(), WakeUp(): the timer thread. Announce(): any thread, after it published what it announces.
// Checked for all interleavings in tests/timer/alarm_model.cc.
// Rejected: an unconditional unpark by each armer (a futex call per sleep; 100,000 sleepers wake the thread 100,000
// times); a mutex and a condition variable (the armer may have to wait for the timer thread).
#ifndef WEFT_TIMER_CALLBACK_ALARM_H_
#define WEFT_TIMER_CALLBACK_ALARM_H_

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

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_ALARM_H_
