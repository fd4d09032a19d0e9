// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// MonitorSwitch: turns the monitor of the workers (slice_monitor.h) off while all of them sleep, and on again.
//
//   worker that gets up                    monitor
//   -------------------                    -----
//   say that it does not sleep             say that it is off
//   full fence                             full fence
//   is the monitor off? wake it            do all workers sleep? sleep, until one wakes it
//
// Invariant
//   MS1  While the monitor sleeps in Off(), every worker sleeps, or will call GotUp() and find it off: one of the two
//        fences comes first, and the other side sees what was stored before it.
// Checked for all interleavings in tests/model/monitor_switch_model.cc.
// GotUp(), Wake(): any thread. The others: the monitor.
#ifndef WEFT_SCHEDULING_GROUP_WATCH_MONITOR_SWITCH_H_
#define WEFT_SCHEDULING_GROUP_WATCH_MONITOR_SWITCH_H_

#include <chrono>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"

namespace weft::scheduling_group {

class MonitorSwitch {
 public:
  // A worker, after it has stored that it is awake.
  void GotUp() noexcept {
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (MS1). Pairs with the fence in Off().
    // relaxed, both: the value is the whole message, and the parker carries the rest.
    if (off_.load(std::memory_order_relaxed) && off_.exchange(false, std::memory_order_relaxed)) parker_.Unpark();
  }

  // The monitor. Stays off until a worker gets up or Wake() is called; returns at once if `all_sleep()` is false.
  template <class AllSleep>
  void Off(AllSleep&& all_sleep) noexcept {
    off_.store(true, std::memory_order_relaxed);   // The fence orders it.
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (MS1). Pairs with the fence in GotUp().
    if (all_sleep()) parker_.Park();
    off_.store(false, std::memory_order_relaxed);  // Carries nothing; a token left behind makes one check come early.
  }

  // The monitor. Sleeps until then, or until Wake().
  void PauseUntil(std::chrono::steady_clock::time_point then) noexcept { (void)parker_.ParkUntil(then); }

  // Any thread. Makes the monitor check at once; it sees what the caller did before.
  void Wake() noexcept { parker_.Unpark(); }

  // Any thread, for statistics. True also while Off() still asks whether all sleep.
  bool off() const noexcept { return off_.load(std::memory_order_relaxed); }

 private:
  base::Atomic<bool> off_{false};
  base::Parker parker_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_MONITOR_SWITCH_H_
