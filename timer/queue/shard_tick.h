// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ShardTick: when the timer thread must visit a shard, and which of its timers the shard's worker keeps (kept_timers.h
// in scheduling_group/idle/).
//
//      a new timer, not before next()           nothing to do: the thread has been told of an earlier one
//                   before it, kept             kept() is not after it; the thread is not told
//                   before it, not kept         next() becomes it; the thread is told
//
// Invariants
//   SHT1  No timer of the queue is due before next(), unless the worker keeps it. So all that is due before next() are
//         time-outs that fibers of this worker have set since the thread was here.
//   SHT2  kept() is not after the first of them. The worker sleeps until kept() at most, and gives up before it does
//         anything else (KT1). Then next() is what the queue needs, and the thread is told.
//   SHT3  A thread that visits the shard takes all that is due, kept or not, and sets next() to what the queue needs.
//         What the worker has kept is the thread's from then on, and the worker gets up in vain.
//   SHT4  A timer before next() is kept whatever kept() was: a worker that ended may have left that behind. An earlier
//         kept() costs its worker a sleep that ends early. One that becomes kNever, when the runtime drops its timers,
//         makes the worker give up.
// next(), kept(): any thread. All else: under the shard's lock. Proven in tests/timer/alarm_model.cc.
#ifndef WEFT_TIMER_QUEUE_SHARD_TICK_H_
#define WEFT_TIMER_QUEUE_SHARD_TICK_H_

#include <algorithm>
#include <atomic>

#include "weft/base/thread/atomic.h"
#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

// relaxed throughout: alarm.h orders next(), the worker itself writes kept(), and the lock guards the timers.
class ShardTick {
 public:
  Tick next() const noexcept { return next_.load(std::memory_order_relaxed); }
  Tick kept() const noexcept { return kept_.load(std::memory_order_relaxed); }
  // Nothing is due before.
  Tick first() const noexcept { return std::min(next(), kept()); }

  // True: the caller announces the tick when the lock has been dropped (alarm.h).
  [[nodiscard]] bool Lower(Tick tick) noexcept {
    if (tick >= next()) return false;
    next_.store(tick, std::memory_order_relaxed);
    return true;
  }

  // By the shard's worker. True: it keeps the timer from now on.
  [[nodiscard]] bool Keep(Tick tick) noexcept {
    if (tick >= next()) return false;
    kept_.store(std::min(kept(), tick), std::memory_order_relaxed);
    return true;
  }

  // The worker may fire what is due before this tick. The rest is the thread's.
  Tick EndOfKept(Tick now) const noexcept { return std::min(now + 1, next()); }

  // By the shard's worker; needs: of the queue. True: as Lower(), of next().
  [[nodiscard]] bool GiveUp(Tick needs) noexcept {
    kept_.store(kNever, std::memory_order_relaxed);
    return Lower(needs);
  }

  // The timer thread has taken what was due.
  void Set(Tick needs) noexcept { next_.store(needs, std::memory_order_relaxed); }

  // The queue is empty.
  void Reset() noexcept {
    kept_.store(kNever, std::memory_order_relaxed);
    Set(kNever);
  }

 private:
  base::Atomic<Tick> next_{kNever};
  base::Atomic<Tick> kept_{kNever};
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_QUEUE_SHARD_TICK_H_
