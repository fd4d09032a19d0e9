// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// TimerWorker: the thread that makes a scheduling group's timers fire.
//
//     loop:  fire all that is due; sleep until the next is, or until an earlier one is armed
//
// Timers lie in shards (timer_shard.h), one per worker and a few for other threads, so that arming and disarming meet
// nobody else's lock. The thread reads the shards' next() without their locks. From a shard with something due it takes
// at most FireContext::kCapacity nodes, drops the lock, and unparks the fibers of that batch with one wake-up pass:
// UnparkRemote() pushes them into the group's queue and wakes a sleeping worker (idle_workers.h). Then it goes on with
// the next shard. So locks are held for microseconds, and no shard waits for the end of another's.
//
// Invariants
//   TW1  No timer fires before its deadline (TK1 in tick.h, TQ3 in timer_queue.h).
//   TW2  No timer is forgotten: its shard's next() is never later than it (SH1), and the thread sleeps no longer than
//        the earliest next() it can see, by the protocol of alarm.h (AL1). Arming costs a system call only if the new
//        timer is earlier than what the thread sleeps for.
//   TW3  With nothing armed and nothing to trim the thread sleeps for good.
//   TW4  `fire` runs under the shard's lock, once per arming. Hence after Disarm() it neither runs nor will run.
//   TW5  A fiber given to FireContext::Ready is readied after the lock was dropped, and by then nothing touches its
//        node any more.
//
// Its life, for the runtime: made after its group and before the group's workers run; DropCallbacks() before the
// group's last fibers are waited for, so that timers start no more of them; Stop() when they have ended, or are left
// behind; destroyed when the workers have been joined. After Stop() timers that are armed never fire.
//
// What `fire` may do: decide, by atomics, who ended the wait; FireContext::Ready(). It may not block, switch, take
// another lock, arm or disarm, nor touch the node after the wait's owner may return.
//
// Rejected: workers that poll the queue between two fibers (no thread needed, but a worker busy in a long fiber makes
// timers late, and a read of the clock per switch is 20 ns of some 50); one queue per group (every sleep of every
// worker takes one lock); timerfd in the reactor (a system call per earliest timer, and none of this without input and
// output).
#ifndef WEFT_TIMER_TIMER_WORKER_H_
#define WEFT_TIMER_TIMER_WORKER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>

#include "weft/base/clock.h"
#include "weft/base/deadline.h"
#include "weft/base/parker.h"
#include "weft/scheduling_group/scheduling_group.h"
#include "weft/timer/callback_runner.h"
#include "weft/timer/shard_set.h"
#include "weft/timer/tick.h"
#include "weft/timer/timer_queue.h"

namespace weft::timer {

class TimerWorker {
 public:
  struct Options {
    // Whose timers they are, and where callbacks' fibers are started. nullptr: only timers without fibers.
    scheduling_group::SchedulingGroup* group = nullptr;
    // Gives memory back to the OS; returns how much is left to do. Called by the timer thread when RequestTrim() was
    // called and then not for `trim_after`, and then every few milliseconds (where RequestTrim() goes on being called,
    // every tenth of `trim_after`) until it returns 0. Empty: nothing to do.
    std::function<std::size_t()> trim;
    std::chrono::nanoseconds trim_after = std::chrono::seconds(1);
    // When Stop() begins to complain of a callback that keeps the timer thread; then every ten times as long.
    std::chrono::nanoseconds complain_after = std::chrono::seconds(1);
    // Where "now" comes from. One that is not the steady clock needs RunDue() instead of Start().
    const base::Clock* clock = &base::SteadyClock::Get();
    // False: threads that belong to no group set no timers here. (A FiberLoop's: nobody else drives it.)
    bool for_all_threads = true;
  };

  // Timers may be armed from now on.
  explicit TimerWorker(Options options);
  ~TimerWorker();  // Stops it, if nobody did.
  TimerWorker(const TimerWorker&) = delete;
  TimerWorker& operator=(const TimerWorker&) = delete;

  // The thread, on the group's CPUs. False: the system gave none.
  [[nodiscard]] bool Start();

  // What was still there.
  struct Dropped {
    std::size_t callbacks =
        0;                  // timers with callbacks: the callbacks have been destroyed, but for those that run just now
    std::size_t waits = 0;  // other nodes, that is fibers asleep: they have been unlinked and will not be woken
  };
  // Timers with callbacks are destroyed, and no more can be set (SetFiberTimer returns 0); waits go on ending in time.
  // How many there were. A callback that runs, or whose fiber has been started, is destroyed by its fiber.
  std::size_t DropCallbacks();
  // The same, if nobody did; joins the thread; nothing fires any more. Once. A callback that blocks the timer thread is
  // waited for, and named in the log (Options::complain_after).
  Dropped Stop();

  // Of this group; of the calling worker's group, and for other threads of some group. nullptr: there is none. Any
  // thread; the pointer is good while the runtime is.
  static TimerWorker* Of(const scheduling_group::SchedulingGroup* group) noexcept;
  static TimerWorker* ForCaller() noexcept;

  // Any thread, a timer's `fire` excepted. `node` is not armed; its `fire` is set. Allocates nothing. With no deadline
  // it is armed and never fires.
  void Arm(WaitTimer* node, Deadline deadline) noexcept;

  // Any thread, a timer's `fire` excepted. True: it was armed and will not fire. False: it has fired, or was never
  // armed. Either way its `fire` does not run when this returns.
  static bool Disarm(WaitTimer* node) noexcept;

  // Any thread: there may be memory that nobody needs (housekeeping.h). Costs a fence and a load if one is pending;
  // meant for slow paths, such as a pool that grew or was given more than it keeps.
  void RequestTrim() noexcept;

  // Instead of Start(), for tests and for loops that bring their own thread (FiberLoop): fires all that is due now. Returns when
  // something is due next (kNever: nothing is).
  Tick RunDue();
  // By such a loop, of a driven group, when its worker has announced that it sleeps: when something is due next, as
  // RunDue(). Until WakeUp() whoever arms an earlier timer, on whatever thread, wakes the worker.
  Tick AnnounceSleep();
  void WakeUp();

  // Statistics.
  std::uint64_t wake_ups() const noexcept { return wake_ups_.load(std::memory_order_relaxed); }
  std::uint64_t fired() const noexcept { return fired_.load(std::memory_order_relaxed); }
  // Linked nodes at this moment.
  std::size_t armed() const noexcept;

 private:
  void ThreadMain();
  void JoinThread();
  Tick Earliest() const noexcept;
  void FireSome(TimerShard* shard, Tick now);
  void TrimTimers();
  static void TrimTimers(TimerShard* shard, EntryWidth width);

  const Options options_;
  ShardSet* const set_;
  const int group_id_;
  std::atomic<bool> stopping_{false};
  bool stopped_ = false;
  // Written by the timer thread only.
  std::atomic<std::uint64_t> wake_ups_{0};
  std::atomic<std::uint64_t> fired_{0};
  CallbackRunner callback_runner_;
  std::atomic<int> thread_id_{0};  // the system's
  base::Parker thread_ended_;
  std::thread thread_;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_TIMER_WORKER_H_
