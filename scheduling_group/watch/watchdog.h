// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Watchdog: the one thread of the process that looks at all workers, and the only one of Weft's that looks again and
// again. What it looks at, and how often:
//
//   time slices        every kCheckEvery  raises the flag of each worker whose fiber has had its slice (time_slice.h)
//   slice limits       every kCheckEvery  reports turns that last beyond a limit (slice_limits.h)
//   long slices        every kCheckEvery  how long turns of fibers have lasted that two checks or more have seen
//   ready fibers       every kCheckEvery  how old the oldest is in each group: overload (ready_waits.h)
//   troubled groups    every kCheckEvery  nothing gets on, late timers, all work in one, stacks (group_watch.h)
//   the park clock     every kCheckEvery  for the age of waits (fiber/wait_reason.h)
//   handlers of faults, descriptors       (context/stack/overflow_handler.h, descriptor_watch.h)
//   timers from above  when due           (watch_timers.h): whether somebody polls for input and output
//
//     check --all sleep, kQuietChecks times in a row-->  off  --a worker gets up-->  check
//
// Time slices. A turn of a worker lasts from one switch to the next. If a second check finds the same turn, the
// Watchdog reads the worker's CPU time, and again at later checks until it has grown by kMustHaveRun: mostly at the
// third check, after two to three times kCheckEvery. CPU time counts, because a worker that the kernel does not run
// keeps no fiber waiting; it is read late, because most turns are over by the next check.
//
// Off. Each check in a row that finds all asleep doubles the time to the next, up to kMostPause, unless there are
// limits: workers that get up for moments are seldom disturbed; a fiber that loops may run longer. After kQuietChecks
// of them WatchSwitch turns the Watchdog off, until a worker gets up. Timers from above go on.
//
//   worker that gets up                    Watchdog
//   -------------------                    --------
//   say that it does not sleep             say that it is off
//   full fence                             full fence
//   is the Watchdog off? wake it           do all workers sleep? sleep, until one wakes it
//
// Invariants
//   TM1  While the Watchdog is off every worker sleeps, or is about to turn it on (MS1).
//   TM2  A flag is raised for one turn, whose number is stored beside it. A fiber that finds the flag raised for an
//        earlier turn lowers it and goes on, so no fiber yields for another's time.
//   TM3  The Watchdog touches a worker's flag and counters under workers_lock_. The worker takes it to enter and to
//        leave the list, when its thread begins and ends. So its group is open, too.
//   MS1  While the Watchdog sleeps in Off(), every worker sleeps, or will call GotUp() and find it off: one of the two
//        fences comes first, and the other side sees what was stored before it. Checked for all interleavings in
//        tests/model/watch_switch_model.cc.
//   WD1  It runs while a team of workers does (AddTeam()). A forked child has none, whatever its parent had, and its
//        first team starts its own: the child's object is a new one.
//
// Cost: 100 checks a second while workers are busy, each of two lines for each worker that is up and those that say how
// many fibers wait in its queues. Beside a busy neighbour checks come late. A hook or a log sink of the user's that
// blocks delays all of it.
//
// WatchSwitch::GotUp(), Wake(): any thread. The rest of it: the Watchdog.
//
// Rejected: kernel timers on each worker's CPU time (their signals interrupt users' system calls); checks by the
// TimerWorkers (users' callbacks may block them); giving memory back here (timer/worker/alarm.h: it begins a second
// after all have gone to sleep, when the Watchdog is off, and the timer thread sleeps until a time anyway).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_WATCHDOG_H_
#define WEFT_SCHEDULING_GROUP_WATCH_WATCHDOG_H_

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/watch/group_watch.h"
#include "weft/scheduling_group/watch/slice_limits.h"
#include "weft/scheduling_group/watch/wait_samples.h"
#include "weft/scheduling_group/watch/watch_report.h"
#include "weft/scheduling_group/watch/watch_timers.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::scheduling_group {

class SchedulingGroup;

class WatchSwitch {
 public:
  // end_sleep(): ends the Watchdog's sleep where it does not sleep on the Parker.
  template <class EndSleep>
  void GotUp(EndSleep&& end_sleep) noexcept {      // A worker, after it has stored that it is awake.
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (MS1). Pairs with the fence in Off().
    // relaxed, both: the value is the whole message, and the parker carries the rest.
    if (off_.load(std::memory_order_relaxed) && off_.exchange(false, std::memory_order_relaxed)) Wake(end_sleep);
  }

  // The Watchdog. `sleep(Parker*)` lasts until a worker gets up or Wake() is called. Not if `all_sleep()` is false.
  template <class AllSleep, class Sleep>
  void Off(AllSleep&& all_sleep, Sleep&& sleep) noexcept {
    off_.store(true, std::memory_order_relaxed);   // The fence orders it.
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (MS1). Pairs with the fence in GotUp().
    if (all_sleep()) sleep(&parker_);
    off_.store(false, std::memory_order_relaxed);  // Carries nothing; a token left behind makes one check come early.
  }

  // The Watchdog: sleep(Parker*) until then, or until Wake().
  base::Parker* parker() noexcept { return &parker_; }

  // Any thread. Makes the Watchdog check at once; it sees what the caller did before.
  template <class EndSleep>
  void Wake(EndSleep&& end_sleep) noexcept {
    if (parker_.Unpark()) end_sleep();
  }

  // Any thread, for statistics. True also while Off() still asks whether all sleep.
  bool off() const noexcept { return off_.load(std::memory_order_relaxed); }

 private:
  base::Atomic<bool> off_{false};
  base::Parker parker_;
};

class Watchdog {
 public:
  static constexpr std::chrono::milliseconds kCheckEvery{10};
  // Its wake-ups make the kernel move other threads: with checks every 10 ms a plain thread that wakes a fiber every 50
  // us waits 1.06 times as long for it (bench/workload --workload=wake,wake_park, p50).
  static constexpr std::chrono::milliseconds kMostPause{80};
  // After so many checks that find all asleep the Watchdog turns off. Then a worker that gets up wakes it, by a futex.
  static constexpr int kQuietChecks = 5;
  // After a report of a group, times what that took: with 64 groups that stand still it has time for the rest of it.
  static constexpr int kPauseAfterReport = 10;
  static constexpr std::chrono::seconds kMostReportPause{10};
  // Half a check's time, since the third check may come a little early.
  static constexpr std::chrono::nanoseconds kMustHaveRun = kCheckEvery / 2;

  using TimePoint = SliceLimits::TimePoint;

  // A worker as the Watchdog sees it. Made, used and destroyed by the worker's thread.
  class WatchedWorker {
   public:
    // `current`: of the worker, that has this index in this group.
    WatchedWorker(const WorkerCounters* counters, const RunningFiber* current, SchedulingGroup* group, unsigned index);
    ~WatchedWorker();
    WatchedWorker(const WatchedWorker&) = delete;
    WatchedWorker& operator=(const WatchedWorker&) = delete;

    // While one lives the worker sleeps: it runs no fiber.
    class Asleep {
     public:
      explicit Asleep(WatchedWorker* worker) noexcept : worker_(worker) {
        worker_->asleep_.store(true, std::memory_order_relaxed);  // If seen late, the Watchdog stays on longer.
      }
      ~Asleep() {
        ParkClock::Advance();                                      // While all slept, the Watchdog may have been off.
        worker_->asleep_.store(false, std::memory_order_relaxed);  // The fence in GotUp() orders it.
        Get().GotUp();
      }
      Asleep(const Asleep&) = delete;
      Asleep& operator=(const Asleep&) = delete;

     private:
      WatchedWorker* const worker_;
    };

    // Whether there were limits when the worker began.
    bool has_limits() const noexcept { return has_limits_; }

    // The worker: its fiber has yielded, and no other was ready. It begins another turn.
    void BeginTurnAgain() noexcept { WorkerCounters::Add(turns_again_); }

    // The worker lowers its raised flag. True: it was raised for this turn.
    bool EndSlice() noexcept;

   private:
    friend class Watchdog;
    static constexpr std::chrono::nanoseconds kNotRead{-1};

    std::uint64_t Turn() const noexcept {
      // relaxed: the worker reads its own, and it may be late.
      return counters_->switches.load(std::memory_order_relaxed) + counters_->finished.load(std::memory_order_relaxed) +
             turns_again_.load(std::memory_order_relaxed);
    }
    bool Check(TimePoint now, WaitRecorder* long_slices) noexcept;
    // Past a limit that is above 0, in a fiber's turn.
    bool IsPast(std::chrono::nanoseconds limit, TimePoint now) const noexcept {
      return has_limits_ && limit.count() != 0 && now - seen_at_ >= limit && current_->Look() != nullptr &&
             Turn() == seen_turn_;  // In this order: LS1.
    }
    std::optional<NamedSlice> LookAtFiber(TimePoint now) const;
    // Its group is looked at through it. Where that stops, ready fibers are left. (It may have been left behind.)
    bool StandsForGroup() const noexcept;

    const WorkerCounters* const counters_;
    const RunningFiber* const current_;
    SchedulingGroup* const group_;
    const unsigned index_;
    const pid_t thread_ = ::gettid();
    const bool has_limits_ = SliceLimits::on();
    std::atomic<std::uint64_t> turns_again_{0};  // as WorkerCounters
    std::atomic<bool>* const is_over_;           // The thread's flag.
    clockid_t cpu_clock_;
    base::Atomic<bool> asleep_{false};
    std::atomic<std::uint64_t> turn_over_{0};  // the turn for which the flag was raised
    // Used by the Watchdog only.
    std::uint64_t seen_turn_ = 0;
    std::chrono::nanoseconds seen_cpu_{kNotRead};
    TimePoint seen_at_{};    // the turn, first
    TimePoint seen_last_{};  // in its fiber; zero: once at most
    TimePoint warned_at_{};  // of some turn
    bool error_reported_ = false;
    GroupWatch group_watch_;
    // Guarded by workers_lock_.
    WatchedWorker* next_ = nullptr;
    WatchedWorker* previous_ = nullptr;
  };

  static Watchdog& Get() noexcept;

  // Each team of workers calls them, before it begins and after its end. False: the system refuses a thread.
  [[nodiscard]] bool AddTeam();
  void RemoveTeam() noexcept;

  // For layers above: Add(), and what else timers() has.
  [[nodiscard]] bool AddTimer(WatchTimers::Client* client, int* timer, std::error_code* error);
  WatchTimers& timers() noexcept { return timers_; }

  // The thread of the worker that runs this fiber now; 0: none does, or the lock is held for long (perhaps by a thread
  // that dies, or did not come along with a fork). Any thread.
  pid_t ThreadOf(const FiberEntity* fiber) noexcept;

  // Statistics.
  // How long fibers ran without a switch, of those that two checks have seen: from the first of these to the last,
  // which is 2 * kCheckEvery too short at most while checks come in time. They count when they are over.
  void AddLongSlicesTo(WaitHistogram* histogram) const { long_slices_.AddTo(histogram); }
  std::uint64_t checks() const noexcept { return checks_.load(std::memory_order_relaxed); }
  // All workers sleep, and the Watchdog waits until one gets up.
  bool off() noexcept { return switch_.off() && AllSleep(); }

 private:
  // Told when the lock has been dropped.
  struct Reports {
    std::optional<NamedSlice> warning;
    std::size_t others = 0;  // that are past the warning limit, too
    std::optional<NamedSlice> error;
    std::optional<GroupTrouble> trouble;
  };

  void ThreadMain() noexcept;
  void Sleep(base::Parker* parker, TimePoint until);
  void GotUp() noexcept {
    switch_.GotUp([this] { timers_.Interrupt(); });
  }
  void Wake() noexcept {
    switch_.Wake([this] { timers_.Interrupt(); });
  }
  bool Check() noexcept;
  void CheckLimits(TimePoint now, Reports* reports);
  std::optional<GroupTrouble> FindTrouble();
  void FindManyStacks() noexcept;
  std::vector<Standstill::Worker> WorkersOf(const SchedulingGroup* group) const;
  void Report(const GroupTrouble& trouble);
  bool AllSleep() noexcept;

  WatchSwitch switch_;
  WatchTimers timers_;
  std::mutex workers_lock_;
  WatchedWorker* workers_ = nullptr;   // guarded by workers_lock_
  WatchedWorker* troubled_ = nullptr;  // likewise: of the last FindTrouble(), unless it has ended
  std::mutex teams_lock_;
  unsigned teams_ = 0;  // guarded by teams_lock_, both
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  TimePoint next_warning_at_{};           // Used by the thread only.
  TimePoint next_trouble_at_{};           // likewise
  std::size_t many_stacks_ = 0;           // likewise; 0: not asked yet
  bool stacks_grow_ = false;              // likewise: those of a group did
  std::atomic<std::uint64_t> checks_{0};  // Only the thread writes it.
  WaitRecorder long_slices_;              // likewise
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_WATCHDOG_H_
