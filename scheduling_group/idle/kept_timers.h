// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// KeptTimers: timers that a worker keeps to itself while it has nothing else to do. timer/queue/timer_shard.h is such.
//
// A fiber that waits with a deadline sets a timer and leaves its worker. If that timer is the first one of the worker's
// shard, the timer thread would have to be woken to learn of it, and would wake the worker when it is due: three
// switches of threads where the worker, which mostly goes to sleep now, may sleep until then itself.
//
//      fiber          sets the timer: the worker keeps it                      WorkerBase::kept_timers
//      its worker     finds another fiber                                 -->  GiveUp(): the timer thread is told
//                     spins, and it becomes due                           -->  FireAndGiveUp()
//                     sleeps until it is due, or until it is claimed      -->  FireAndGiveUp() (idle_loop.h)
//
// So as long as one fiber of a worker sleeps and nothing else runs, a sleep costs one switch of threads, that of the
// worker, and no system calls but the worker's own. An announced timer stays with the timer thread: no worker takes it
// back.
//
// Invariants
//   KT1  A worker keeps timers only from the moment in which a fiber, in ParkKeeping(), is about to leave it until it
//        enters a fiber, naps, waits for the token of a claim or ends; before that it has called GiveUp() or
//        FireAndGiveUp(). So no timer depends on a worker that is busy, nor on a thread that has claimed the worker and
//        lost its CPU before the wake. What the worker does meanwhile is short: it spins, polls, asks the policy and
//        its partners for fibers, and calls the idle hook. None of these may block.
//   KT2  It sleeps, or waits in the poll, no longer than until due().
//   KT3  It does so only if all workers of its group sleep then. One that is busy may take the fiber at once, from the
//        timer thread, which gets a CPU sooner than a worker (docs/decisions/005). One that becomes busy later may have
//        made one time-out late by the wait for a CPU.
//   KT4  In a group of several workers none keeps timers in the poll: it would leave the poll for each of them, and
//        input would wait for the fiber, or for the watchdog of the poll, while others sleep. Its timer goes to the
//        timer thread, which wakes another worker, and that one keeps the next.
// All: the worker.
//
// Cost: a timer that is given up costs its worker the shard's lock once more, and the announcement that the fiber has
// saved. What it does not change, figures, and what was rejected: docs/decisions/026.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_KEPT_TIMERS_H_
#define WEFT_SCHEDULING_GROUP_IDLE_KEPT_TIMERS_H_

#include <chrono>

namespace weft::scheduling_group {

class KeptTimers {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // When the first is due.
  [[nodiscard]] virtual TimePoint due() const noexcept = 0;
  virtual void GiveUp() noexcept = 0;
  // First readies the fibers whose time-outs are due.
  virtual void FireAndGiveUp() noexcept = 0;

 protected:
  ~KeptTimers() = default;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_KEPT_TIMERS_H_
