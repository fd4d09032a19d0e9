// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TimerWorker: the thread that fires a scheduling group's timers.
//
//     loop:  fire all that is due; sleep until the next is, or until an earlier one is armed
//
// A fiber's time-out that is the first of its worker's shard stays with the worker, if that finds no other fiber to
// run: it sleeps until then, and fires it (kept_timers.h). So a fiber that sleeps where nothing else runs costs one
// switch of threads instead of three. All other timers are the thread's.
//
// The thread reads the next() of its shards (timer_shard.h) without their locks. From a shard with something due it
// takes at most FireContext::kCapacity nodes, drops the lock, and unparks the fibers of that batch (UnparkRemote():
// it pushes all of them and then wakes one sleeping worker, which wakes the next). So it holds locks for microseconds,
// and a full shard does not hold up the others.
//
// Invariants
//   TW1  No timer fires before its deadline (TK1 in timer_node.h, TQ3 in timer_queue.h).
//   TW2  No timer is forgotten: its shard's next() is never later than it (SH1), and the thread sleeps no longer than
//        the earliest next() (AL1); or the shard's worker keeps it (KT1). Arming costs a system call only if the thread
//        would wake up too late.
//   TW3  With nothing armed and nothing to trim, the thread sleeps without a limit.
//   TW4  `fire` runs under the shard's lock, once per arming. Hence after Disarm() it neither runs nor will run.
//   TW5  A fiber given to FireContext::Ready is readied after the lock was dropped: nothing touches its node then.
//
// Its life, for the runtime: it is made after its group and before the group's workers run. DropCallbacks() comes
// before the wait for the group's last fibers, so that timers start no more of them, and Stop() after that wait. It is
// destroyed when the workers have been joined. After Stop() armed timers never fire.
//
// `fire` may decide by atomics what ended the wait, and call FireContext::Ready() or Defer(). It may not block, switch,
// take another lock, arm or disarm, or touch the node once the wait's owner may return.
//
// Rejected: workers that poll the queue between two fibers (a long fiber makes timers late, and the clock costs 20 ns a
// switch), or that keep a timer while they run a fiber (the same); a thread that sleeps on a timerfd, whose time others
// change without waking it (each change takes 6 us where a hypervisor has the timer: docs/decisions/026); one queue per
// group (all sleeps take one lock).
#ifndef WEFT_TIMER_WORKER_TIMER_WORKER_H_
#define WEFT_TIMER_WORKER_TIMER_WORKER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "weft/base/deadline.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/group/counters.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/watch/watch_report.h"
#include "weft/timer/callback/callback_runner.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_queue.h"
#include "weft/timer/queue/timer_shard.h"

namespace weft::timer {

class TimerWorker;

// Fires the timers of TimerWorkers in their threads' stead, by RunDueFor(): a test clock
// (fiber/test_clock.cc).
class TimerDriver {
 public:
  // nullptr: there is none. It changes only while no runtime runs, and in a forked child.
  static TimerDriver* Current() noexcept { return current_.load(std::memory_order_acquire); }

  virtual void Add(TimerWorker* timers) = 0;
  // When it returns the driver is not in RunDueFor() and does not call it again.
  virtual void StopFiring(TimerWorker* timers) = 0;
  // The workers of its group have ended.
  virtual void Remove(TimerWorker* timers) = 0;
  // The runtime waits for its last fibers until then, but no longer than that on the wall, and has waited.
  virtual void BeginDrain(Deadline until, std::chrono::nanoseconds at_most) = 0;
  virtual void EndDrain() = 0;

 protected:
  ~TimerDriver() = default;

  // acquire and release: the object.
  static inline constinit std::atomic<TimerDriver*> current_{nullptr};
};

class TimerWorker {
 public:
  struct Options {
    // The group whose timers they are, in which callbacks' fibers start. nullptr: only timers without fibers.
    scheduling_group::SchedulingGroup* group = nullptr;
    // Gives memory back to the OS; returns how much is left to do. The timer thread calls it `trim_after` after the
    // last RequestTrim(), and then every few milliseconds until it returns 0 (alarm.h). Empty: nothing to do.
    std::function<std::size_t()> trim;
    std::chrono::nanoseconds trim_after = std::chrono::seconds(1);
    // When Stop() begins to complain of a callback that blocks the timer thread; again every ten times as long.
    std::chrono::nanoseconds complain_after = std::chrono::seconds(1);
    // The source of "now". Other clocks than the steady one need RunDue() instead of Start().
    const base::Clock* clock = &base::SteadyClock::Get();
    // False: threads that belong to no group set no timers here. (A FiberLoop's: nobody else runs it. Nor groups with
    // another name than the first: a timer's callback starts under the name of what sets it.)
    bool for_all_threads = true;
    // nullptr: Start() makes a thread. Else it hands the timers over to this one, and Stop() takes them back.
    TimerDriver* driver = nullptr;
  };

  // From now on timers may be armed.
  explicit TimerWorker(Options options);
  ~TimerWorker();  // calls Stop(), unless it was called
  TimerWorker(const TimerWorker&) = delete;
  TimerWorker& operator=(const TimerWorker&) = delete;

  // Starts the thread, on the group's CPUs. False: the system refused it.
  [[nodiscard]] bool Start();

  // What Stop() found.
  struct Dropped {
    std::size_t callbacks = 0;  // timers with callbacks, which were destroyed but for those that run now
    std::size_t waits = 0;      // sleeping fibers: their nodes were unlinked, and they will not be woken
  };
  // Destroys the timers with callbacks and refuses new ones (SetFiberTimer returns 0); waits still end in time. Returns
  // how many there were. The fiber of a callback that has started destroys that callback.
  std::size_t DropCallbacks();
  // Once. The same, and joins the thread; nothing fires any more. Waits for a callback that blocks the timer thread,
  // and names it in the log (Options::complain_after). A thread that does not come back until the deadline is left
  // behind (LeftThreads in scheduling_group/worker/worker_slot.h): while it lives, *this must stay in memory.
  Dropped Stop(Deadline give_up = {});
  // For one that must stay in memory: what the destructor does besides.
  void Retire();

  // The timers of this group; of the calling worker's group, or for other threads of some group. nullptr: there is
  // none, or the group stops. Any thread; valid while the runtime runs.
  static TimerWorker* Of(const scheduling_group::SchedulingGroup* group) noexcept;
  static TimerWorker* ForCaller() noexcept;

  // Any thread, but not in `fire`. `node` is not armed, its `fire` is set. Allocates nothing. No deadline: never fires.
  void Arm(WaitTimer* node, Deadline deadline) noexcept;

  // The same by a fiber of this group, which calls ParkKeeping() next: its worker may keep the timer.
  void ArmBeforePark(TimeOut* node, Deadline deadline) noexcept;

  // Any thread, but not in `fire`. True: it was armed and will not fire. False: it has fired, or was never armed. In
  // both cases its `fire` is not running when this returns.
  static bool Disarm(WaitTimer* node) noexcept;

  // Any thread, on slow paths: there may be memory to give back (alarm.h).
  void RequestTrim() noexcept;

  // Instead of Start(), for tests and loops with their own thread (FiberLoop): fires all that is due. Returns when it
  // must be called again (kNever: no timer is left).
  Tick RunDue();
  // By such a loop, of a loop group, when its worker has announced that it sleeps: when something is due next, as
  // RunDue(). Until WakeUp() whoever arms an earlier timer, on whatever thread, wakes the worker.
  Tick AnnounceSleep();
  void WakeUp();

  // The thread of a TimerDriver. The same, on behalf of the timer thread; but it returns after a while if callbacks set
  // timers that are due at once, again and again.
  void RunDueFor();
  // Says what Stop() waits for.
  void ComplainOfStop(std::chrono::milliseconds waited);
  // Any thread. The first tick for which a timer is armed; kNever: none is. Exact under a test clock (SH4).
  Tick NextTimer() const noexcept;
  scheduling_group::SchedulingGroup* group() const noexcept { return options_.group; }

  // For reports, by the Watchdog while the group's workers are there: its thread, if that is late. Nothing of a test
  // clock, and of timers that another thread fires.
  scheduling_group::TimerThread LookAtThread() const noexcept;

  // Statistics.
  std::uint64_t wake_ups() const noexcept { return wake_ups_.load(std::memory_order_relaxed); }
  std::uint64_t fired() const noexcept { return fired_.load(std::memory_order_relaxed) + fired_by_workers(); }
  std::uint64_t fired_by_workers() const noexcept {  // of these
    return set_->fired().by_workers.load(std::memory_order_relaxed);
  }
  scheduling_group::TimerCounts counts() const noexcept;
  // Linked nodes at this moment.
  std::size_t armed() const noexcept;
  // Its thread sleeps, or is about to: it runs no callback.
  bool asleep() const noexcept;
  // Of its thread.
  std::string ThreadName() const;

 private:
  // The thread that stops it says kLeft, or the timer thread says kEnds: whoever comes first.
  enum class Life { kRuns, kEnds, kLeft };

  std::string Label() const;  // of the group, for messages
  void ThreadMain();
  void JoinThread(Deadline give_up);
  bool LeaveThread();
  bool BeginEnd() noexcept;
  Tick Earliest() const noexcept;
  void FireSome(TimerShard* shard, Tick now);
  // Fires the timers that are due at that time, of each shard up to FireContext::kCapacity. False: none was due.
  bool FireOnce(Tick now);
  void TrimTimers();
  static void TrimTimers(TimerShard* shard, EntryWidth width);

  const Options options_;
  ShardSet* const set_;
  const int group_id_;
  std::atomic<bool> stopping_{false};
  bool stopped_ = false;
  bool retired_ = false;
  bool by_driver_ = false;
  // Only the timer thread writes these.
  std::atomic<std::uint64_t> wake_ups_{0};
  std::atomic<std::uint64_t> fired_{0};
  CallbackRunner callback_runner_;
  std::atomic<int> thread_id_{0};  // the system's
  base::Parker thread_ended_;
  std::atomic<Life> life_{Life::kRuns};  // of the thread
  std::thread thread_;
};

}  // namespace weft::timer

#endif  // WEFT_TIMER_WORKER_TIMER_WORKER_H_
