// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SliceMonitor: one thread of the process that checks all workers every kCheckEvery, and raises the flag of each whose
// fiber has had its time slice (time_slice.h).
//
//     check --all sleep, kQuietChecks times in a row-->  off  --a worker gets up-->  check
//
// A worker's turn is what it does between two switches; their number is what its counters say. A worker that is in the
// same turn at a second check has its CPU time read, and again at the following ones, until it has grown by
// kMustHaveRun. On a calm machine that is so at the third check: the fiber has run for two to three times kCheckEvery.
// CPU time, because a worker that the kernel does not let run has kept no other fiber from running; read so late,
// because most turns are over by the next check.
//
// Each check in a row that finds all asleep doubles the time to the next one, up to kMostPause: where workers get up
// for moments only, the monitor seldom gets in their way, and a fiber that loops may run that much longer.
//
// Invariants
//   TM1  While the monitor is off every worker sleeps, or is about to turn it on (monitor_switch.h).
//   TM2  A flag is raised for one turn, and its number stands beside it: a fiber that finds the flag raised for an
//        earlier turn lowers it and goes on. So nobody yields for the time of another.
//   TM3  The monitor touches a worker's flag and counters under workers_lock_, which the worker takes to enter and to
//        leave the list, as its thread begins and ends.
//
// It also reports turns that last beyond a limit (slice_limits.h), if there is one.
//
// Cost: 100 checks a second while workers are busy, each a read of two lines for each worker that is up. That is the
// same for 64 workers as for 2, but for those reads; beside a busy neighbour checks come late, and slices are longer.
// Rejected: timers in the kernel for each worker's CPU time (their signals interrupt users' system calls); checks by
// the TimerWorkers (one for each group; tests and users may block them with callbacks, and would have no slices then).
#ifndef WEFT_SCHEDULING_GROUP_SLICE_MONITOR_H_
#define WEFT_SCHEDULING_GROUP_SLICE_MONITOR_H_

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "weft/base/atomic.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/monitor_switch.h"
#include "weft/scheduling_group/slice_limits.h"
#include "weft/scheduling_group/worker_counters.h"

namespace weft::scheduling_group {

class SliceMonitor {
 public:
  static constexpr std::chrono::milliseconds kCheckEvery{10};
  // Its wake-ups make the kernel move other threads: if it checks every 10 ms throughout, a plain thread that wakes a
  // fiber every 50 us waits for it 1.06 times as long (bench/workload --workload=wake,wake_park, p50, 2 workers on 2
  // CPUs).
  static constexpr std::chrono::milliseconds kMostPause{80};
  // A process that does something now and then is checked for so long; then its workers wake the monitor, at the cost
  // of a futex wake each time.
  static constexpr int kQuietChecks = 5;
  // Half a check: the third check may come a little early.
  static constexpr std::chrono::nanoseconds kMustHaveRun = kCheckEvery / 2;

  using TimePoint = SliceLimits::TimePoint;

  // A worker as the monitor sees it. Made, used and destroyed by the worker's thread.
  class MonitoredWorker {
   public:
    // `current`: of the worker, that has this index in this group.
    MonitoredWorker(const WorkerCounters* counters, const RunningFiber* current, int group, unsigned index);
    ~MonitoredWorker();
    MonitoredWorker(const MonitoredWorker&) = delete;
    MonitoredWorker& operator=(const MonitoredWorker&) = delete;

    // While one lives the worker sleeps: it runs no fiber.
    class Asleep {
     public:
      explicit Asleep(MonitoredWorker* worker) noexcept : worker_(worker) {
        worker_->asleep_.store(true, std::memory_order_relaxed);  // Seen late, the monitor stays on for longer.
      }
      ~Asleep() {
        worker_->asleep_.store(false, std::memory_order_relaxed);  // The fence in GotUp() orders it.
        Get().switch_.GotUp();
      }
      Asleep(const Asleep&) = delete;
      Asleep& operator=(const Asleep&) = delete;

     private:
      MonitoredWorker* const worker_;
    };

    // The worker: its fiber has yielded, and nobody wanted its turn. It begins another one.
    void BeginTurnAgain() noexcept { WorkerCounters::Add(turns_again_); }

    // The worker, whose flag is raised: lowers it. True: it was raised for this turn.
    bool EndSlice() noexcept;

   private:
    friend class SliceMonitor;
    static constexpr std::chrono::nanoseconds kNotRead{-1};

    std::uint64_t Turn() const noexcept {
      // relaxed: the worker's own are exact, and the monitor may be late.
      return counters_->switches.load(std::memory_order_relaxed) + counters_->finished.load(std::memory_order_relaxed) +
             turns_again_.load(std::memory_order_relaxed);
    }
    bool Check(TimePoint now) noexcept;
    // Past a limit that is above 0, in a fiber's turn.
    bool IsPast(std::chrono::nanoseconds limit, TimePoint now) const noexcept {
      return limit.count() != 0 && now - seen_at_ >= limit && current_->Look() != nullptr && Turn() == seen_turn_;
    }
    std::optional<NamedSlice> LookAtFiber(TimePoint now) const;

    const WorkerCounters* const counters_;
    const RunningFiber* const current_;
    const int group_;
    const unsigned index_;
    std::atomic<std::uint64_t> turns_again_{0};  // as WorkerCounters
    std::atomic<bool>* const is_over_;           // The thread's flag.
    clockid_t cpu_clock_;
    base::Atomic<bool> asleep_{false};
    std::atomic<std::uint64_t> turn_over_{0};  // The flag was raised for this one.
    // The monitor's.
    std::uint64_t seen_turn_ = 0;
    std::chrono::nanoseconds seen_cpu_{kNotRead};
    TimePoint seen_at_{};    // the turn, first; if there are limits
    TimePoint warned_at_{};  // of some turn
    bool error_reported_ = false;
    // Guarded by workers_lock_.
    MonitoredWorker* next_ = nullptr;
    MonitoredWorker* previous_ = nullptr;
  };

  static SliceMonitor& Get() noexcept;

  // By each team of workers, before it begins and after its end. False: the system gives no thread.
  [[nodiscard]] bool AddTeam();
  void RemoveTeam() noexcept;

  // Statistics.
  std::uint64_t checks() const noexcept { return checks_.load(std::memory_order_relaxed); }
  // All workers sleep, and it does not check again before one gets up.
  bool off() noexcept { return switch_.off() && AllSleep(); }

 private:
  // Told when the lock has been dropped.
  struct Reports {
    std::optional<NamedSlice> warning;
    std::size_t others = 0;  // that are past the warning limit, too
    std::optional<NamedSlice> error;
  };

  void ThreadMain() noexcept;
  bool Check() noexcept;
  Reports CheckLimits(TimePoint now);
  bool AllSleep() noexcept;

  MonitorSwitch switch_;
  std::mutex workers_lock_;
  MonitoredWorker* workers_ = nullptr;  // guarded by workers_lock_
  std::mutex teams_lock_;
  unsigned teams_ = 0;  // guarded by teams_lock_, both
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  TimePoint next_warning_at_{};           // The thread's.
  std::atomic<std::uint64_t> checks_{0};  // Written by the thread only.
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SLICE_MONITOR_H_
