// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SliceWatch: one thread of the process that looks at all workers every kLookEvery, and raises the flag of each whose
// fiber has had its time slice (time_slice.h).
//
//      look  --all sleep, kQuietLooks times in a row-->  off  --a worker gets up-->  look
//
// A worker's turn is what it does between two switches; their number is what its counters say. A worker that is in the
// same turn at a second look has its CPU time read, and again at the following ones, until it has grown by
// kMustHaveRun. On a calm machine that is so at the third look: the fiber has run for two to three times kLookEvery.
// CPU time, because a worker that the kernel does not let run has kept no other fiber from running; read so late,
// because most turns are over by the next look.
//
// Each look in a row that finds all asleep doubles the time to the next one, up to kMostPause: where workers get up for
// moments only, the watch seldom gets in their way, and a fiber that loops may run that much longer.
//
// Invariants
//   SL1  While the watch is off every worker sleeps, or is about to turn it on (watch_switch.h).
//   SL2  A flag is raised for one turn, and its number stands beside it: a fiber that finds the flag raised for an
//        earlier turn lowers it and goes on. So nobody yields for the time of another.
//   SL3  The watch touches a worker's flag and counters under workers_lock_, which the worker takes to enter and to
//        leave the list, as its thread begins and ends.
//
// Cost: 100 looks a second while workers are busy, each a read of two lines for each worker that is up. That is the
// same for 64 workers as for 2, but for those reads; beside a busy neighbour looks come late, and slices are longer.
// Rejected: timers in the kernel for each worker's CPU time (their signals interrupt users' system calls); looks by the
// TimerWorkers (one for each group; tests and users may block them with callbacks, and would have no slices then).
#ifndef WEFT_SCHEDULING_GROUP_SLICE_WATCH_H_
#define WEFT_SCHEDULING_GROUP_SLICE_WATCH_H_

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "weft/base/atomic.h"
#include "weft/scheduling_group/watch_switch.h"
#include "weft/scheduling_group/worker_counters.h"

namespace weft::scheduling_group {

class SliceWatch {
 public:
  static constexpr std::chrono::milliseconds kLookEvery{10};
  // Its wake-ups make the kernel move other threads: if it looks every 10 ms throughout, a plain thread that wakes a
  // fiber every 50 us waits for it 1.06 times as long (bench/workload --workload=wake,wake_park, p50, 2 workers on 2
  // CPUs).
  static constexpr std::chrono::milliseconds kMostPause{80};
  // A process that does something now and then is looked at for so long; then its workers wake the watch, at the cost
  // of a futex wake each time.
  static constexpr int kQuietLooks = 5;
  // Half a look: the third look may come a little early.
  static constexpr std::chrono::nanoseconds kMustHaveRun = kLookEvery / 2;

  // A worker as the watch sees it. Made, used and destroyed by the worker's thread.
  class Watched {
   public:
    explicit Watched(const WorkerCounters* counters);
    ~Watched();
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

    // While one lives the worker sleeps: it runs no fiber.
    class Asleep {
     public:
      explicit Asleep(Watched* watched) noexcept : watched_(watched) {
        watched_->asleep_.store(true, std::memory_order_relaxed);  // Seen late, the watch stays on for longer.
      }
      ~Asleep() {
        watched_->asleep_.store(false, std::memory_order_relaxed);  // The fence in GotUp() orders it.
        Get().switch_.GotUp();
      }
      Asleep(const Asleep&) = delete;
      Asleep& operator=(const Asleep&) = delete;

     private:
      Watched* const watched_;
    };

    // The worker, whose flag is raised: lowers it. True: it was raised for this turn.
    bool EndSlice() noexcept;

   private:
    friend class SliceWatch;
    static constexpr std::chrono::nanoseconds kNotRead{-1};

    std::uint64_t Turn() const noexcept {
      // relaxed: the worker's own are exact, and the watch may be late.
      return counters_->switches.load(std::memory_order_relaxed) + counters_->finished.load(std::memory_order_relaxed);
    }
    bool Look() noexcept;

    const WorkerCounters* const counters_;
    std::atomic<bool>* const is_over_;  // The thread's flag.
    clockid_t cpu_clock_;
    base::Atomic<bool> asleep_{false};
    std::atomic<std::uint64_t> turn_over_{0};  // The flag was raised for this one.
    // The watch's.
    std::uint64_t seen_turn_ = 0;
    std::chrono::nanoseconds seen_cpu_{kNotRead};
    // Guarded by workers_lock_.
    Watched* next_ = nullptr;
    Watched* previous_ = nullptr;
  };

  static SliceWatch& Get() noexcept;

  // By each team of workers, before it begins and after its end. False: the system gives no thread.
  [[nodiscard]] bool AddTeam();
  void RemoveTeam() noexcept;

  // Statistics.
  std::uint64_t looks() const noexcept { return looks_.load(std::memory_order_relaxed); }
  // All workers sleep, and it does not look again before one gets up.
  bool off() noexcept { return switch_.off() && AllSleep(); }

 private:
  void ThreadMain() noexcept;
  bool Look() noexcept;
  bool AllSleep() noexcept;

  WatchSwitch switch_;
  std::mutex workers_lock_;
  Watched* workers_ = nullptr;  // guarded by workers_lock_
  std::mutex teams_lock_;
  unsigned teams_ = 0;  // guarded by teams_lock_, both
  std::thread thread_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> looks_{0};  // Written by the thread only.
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SLICE_WATCH_H_
