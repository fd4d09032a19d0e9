// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SliceMonitor: one thread of the process that checks all workers every kCheckEvery. It raises the flag of each worker
// whose fiber has had its time slice (time_slice.h), and reports turns that last beyond a limit (SliceLimits).
//
//     check --all sleep, kQuietChecks times in a row-->  off  --a worker gets up-->  check
//
// Time slices. A turn of a worker lasts from one switch to the next. If a second check finds the same turn, the monitor
// reads the worker's CPU time, and again at later checks until it has grown by kMustHaveRun: mostly at the third check,
// after two to three times kCheckEvery. CPU time counts, because a worker that the kernel does not run keeps no fiber
// waiting; it is read late, because most turns are over by the next check.
//
// Limits. They count time by the clock on the wall: a fiber that blocks its thread in the kernel keeps others from
// running, too. Here a turn ends also with a yield that found nobody to yield to.
//
//   the warning limit   one line, and while it goes on another each second; of several such workers the one reported
//                       least recently is reported
//   the error limit     one line for each turn, and the hook
//
// Limits are for workers that begin after Set(): a FiberLoop that is older than the runtime has none.
//
// Off. Each check in a row that finds all asleep doubles the time to the next, up to kMostPause, unless there are
// limits: workers that get up for moments are seldom disturbed; a fiber that loops may run longer. After kQuietChecks
// of them MonitorSwitch turns the monitor off, until a worker gets up:
//
//   worker that gets up                    monitor
//   -------------------                    -----
//   say that it does not sleep             say that it is off
//   full fence                             full fence
//   is the monitor off? wake it            do all workers sleep? sleep, until one wakes it
//
// Invariants
//   TM1  While the monitor is off every worker sleeps, or is about to turn it on (MS1).
//   TM2  A flag is raised for one turn, whose number is stored beside it. A fiber that finds the flag raised for an
//        earlier turn lowers it and goes on, so no fiber yields for another's time.
//   TM3  The monitor touches a worker's flag and counters under workers_lock_. The worker takes it to enter and to
//        leave the list, when its thread begins and ends.
//   LS1  A fiber's id and name are read while it is there: the reader takes the lock, finds the fiber on its worker,
//        then the worker in the turn that it has seen. A worker counts the end of a turn before another fiber is seen
//        on it, so the fiber had not ended before the lock was taken. It ends only after its worker has had the lock.
//   MS1  While the monitor sleeps in Off(), every worker sleeps, or will call GotUp() and find it off: one of the two
//        fences comes first, and the other side sees what was stored before it. Checked for all interleavings in
//        tests/model/monitor_switch_model.cc.
//
// Cost: 100 checks a second while workers are busy, each of two lines for each worker that is up. Beside a busy
// neighbour checks come late. Where there are no limits: a test when a fiber ends. With limits all workers take one
// lock for each end.
//
// SliceLimits::Set(): while no runtime runs. SetHook(), MonitorSwitch::GotUp(), Wake(): any thread. Retire() in
// worker.cc asks for limits. The rest of both: the monitor.
//
// Rejected: kernel timers on each worker's CPU time (their signals interrupt users' system calls); checks by the
// TimerWorkers (users' callbacks may block them).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_SLICE_MONITOR_H_
#define WEFT_SCHEDULING_GROUP_WATCH_SLICE_MONITOR_H_

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/parker.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::scheduling_group {

// A fiber that has not suspended for a while.
struct LongSlice {
  std::uint64_t fiber_id = 0;
  std::string_view fiber_name;  // "" if it has none; good during the hook
  int scheduling_group = 0;
  unsigned worker = 0;                  // in its group
  std::chrono::nanoseconds ran_for{0};  // at least
};

// Owns its names.
struct NamedSlice : LongSlice {
  std::string name;
  std::string group_name;
};

class SliceLimits {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  using Hook = std::function<void(const LongSlice&)>;
  static constexpr std::chrono::seconds kWarnEvery{1};

  // 0: none.
  static void Set(std::chrono::nanoseconds warning, std::chrono::nanoseconds error) noexcept;
  static void SetHook(Hook hook);

  // relaxed, all: set before the workers that ask start.
  static bool on() noexcept { return on_.load(std::memory_order_relaxed); }
  static std::chrono::nanoseconds warning() noexcept {
    return std::chrono::nanoseconds(warning_ns_.load(std::memory_order_relaxed));
  }
  static std::chrono::nanoseconds error() noexcept {
    return std::chrono::nanoseconds(error_ns_.load(std::memory_order_relaxed));
  }

  // The monitor holds it to read of a fiber, and a worker has it once before a fiber goes (LS1).
  static base::SpinLock& ReaderLock() noexcept { return reader_lock_; }
  static void AwaitReader() noexcept { const base::SpinLockGuard guard(reader_lock_); }

  // By the monitor, without a lock.
  static void Warn(const NamedSlice& slice, std::size_t others);
  static void ReportError(NamedSlice slice);

 private:
  static constinit std::atomic<bool> on_;
  static constinit std::atomic<std::int64_t> warning_ns_;
  static constinit std::atomic<std::int64_t> error_ns_;
  static constinit base::SpinLock reader_lock_;
};

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

class SliceMonitor {
 public:
  static constexpr std::chrono::milliseconds kCheckEvery{10};
  // Its wake-ups make the kernel move other threads: with checks every 10 ms a plain thread that wakes a fiber every 50
  // us waits 1.06 times as long for it (bench/workload --workload=wake,wake_park, p50).
  static constexpr std::chrono::milliseconds kMostPause{80};
  // After so many checks that find all asleep the monitor turns off. Then a worker that gets up wakes it, by a futex.
  static constexpr int kQuietChecks = 5;
  // Half a check's time, since the third check may come a little early.
  static constexpr std::chrono::nanoseconds kMustHaveRun = kCheckEvery / 2;

  using TimePoint = SliceLimits::TimePoint;

  // A worker as the monitor sees it. Made, used and destroyed by the worker's thread.
  class MonitoredWorker {
   public:
    // `current`: of the worker, that has this index in this group, whose name lives as long.
    MonitoredWorker(const WorkerCounters* counters, const RunningFiber* current, int group, std::string_view group_name,
                    unsigned index);
    ~MonitoredWorker();
    MonitoredWorker(const MonitoredWorker&) = delete;
    MonitoredWorker& operator=(const MonitoredWorker&) = delete;

    // While one lives the worker sleeps: it runs no fiber.
    class Asleep {
     public:
      explicit Asleep(MonitoredWorker* worker) noexcept : worker_(worker) {
        worker_->asleep_.store(true, std::memory_order_relaxed);  // If seen late, the monitor stays on longer.
      }
      ~Asleep() {
        ParkClock::Advance();                                      // While all slept, the monitor may have been off.
        worker_->asleep_.store(false, std::memory_order_relaxed);  // The fence in GotUp() orders it.
        Get().switch_.GotUp();
      }
      Asleep(const Asleep&) = delete;
      Asleep& operator=(const Asleep&) = delete;

     private:
      MonitoredWorker* const worker_;
    };

    // Whether there were limits when the worker began.
    bool has_limits() const noexcept { return has_limits_; }

    // The worker: its fiber has yielded, and no other was ready. It begins another turn.
    void BeginTurnAgain() noexcept { WorkerCounters::Add(turns_again_); }

    // The worker lowers its raised flag. True: it was raised for this turn.
    bool EndSlice() noexcept;

   private:
    friend class SliceMonitor;
    static constexpr std::chrono::nanoseconds kNotRead{-1};

    std::uint64_t Turn() const noexcept {
      // relaxed: the worker reads its own, and the monitor may be late.
      return counters_->switches.load(std::memory_order_relaxed) + counters_->finished.load(std::memory_order_relaxed) +
             turns_again_.load(std::memory_order_relaxed);
    }
    bool Check(TimePoint now) noexcept;
    // Past a limit that is above 0, in a fiber's turn.
    bool IsPast(std::chrono::nanoseconds limit, TimePoint now) const noexcept {
      return has_limits_ && limit.count() != 0 && now - seen_at_ >= limit && current_->Look() != nullptr &&
             Turn() == seen_turn_;  // In this order: LS1.
    }
    std::optional<NamedSlice> LookAtFiber(TimePoint now) const;

    const WorkerCounters* const counters_;
    const RunningFiber* const current_;
    const int group_;
    const std::string_view group_name_;
    const unsigned index_;
    const pid_t thread_ = ::gettid();
    const bool has_limits_ = SliceLimits::on();
    std::atomic<std::uint64_t> turns_again_{0};  // as WorkerCounters
    std::atomic<bool>* const is_over_;           // The thread's flag.
    clockid_t cpu_clock_;
    base::Atomic<bool> asleep_{false};
    std::atomic<std::uint64_t> turn_over_{0};  // the turn for which the flag was raised
    // Used by the monitor only.
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

  // Each team of workers calls them, before it begins and after its end. False: the system refuses a thread.
  [[nodiscard]] bool AddTeam();
  void RemoveTeam() noexcept;

  // The thread of the worker that runs this fiber now; 0: none does, or the lock is held for long (perhaps by a thread
  // that dies, or did not come along with a fork). Any thread.
  pid_t ThreadOf(const FiberEntity* fiber) noexcept;

  // Statistics.
  std::uint64_t checks() const noexcept { return checks_.load(std::memory_order_relaxed); }
  // All workers sleep, and the monitor waits until one gets up.
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
  TimePoint next_warning_at_{};           // Used by the thread only.
  std::atomic<std::uint64_t> checks_{0};  // Only the thread writes it.
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_SLICE_MONITOR_H_
