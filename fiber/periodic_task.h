// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PeriodicTask: a function that runs again and again in one fiber, until its owner stops it.
// Sample:
//   class Cache {
//    public:
//     bool Start() { return refresh_.Start("refresh", {.period = 30s, .jitter = 5s}, [this] { Refresh(); }); }
//    private:
//     void Refresh();
//     PeriodicTask refresh_;  // the last member: stops before what Refresh() uses goes
//   };
//
// The function may wait, sleep and lock. Its runs never overlap. What it keeps in a FiberLocal its next run finds.
// For a callback without an owner, in a new fiber each time, there is SetFiberTimer() (timer/fiber_timer.h).
//
// When it runs. With Pace::kFixedRate a run is due each period, counted from the start: how late a run is, or how long
// it takes, does not shift the next ones; one that takes longer than a period makes those due meanwhile fall out. With
// Pace::kFixedDelay a run is due a period after the end of the last one. A run never begins before it is due.
//
// Who may call: Start(), Stop() and the destructor: one fiber or thread at a time. All else: anybody, also the
// function. Stop() and the destructor switch (a thread: block) until the run under way has ended (the function calls
// RequestStop()). Stop() is a cancellation point, the destructor none. A cancelled Stop() has requested the stop, but
// not waited for the run; it can be called again.
// Memory ordering: the function sees what came before Start(); the caller of Stop() sees what the function did.
// Lifetime: may be destroyed at any time; stops then.
// Errors: an exception of the function is logged, and the task goes on, or ends if Settings::stop_on_exception is set.
// One that is no std::exception leaves the fiber, as it does any other.
//
// The end of the runtime. TerminateRuntime() requests a stop, so a task that its owner forgot does not hold it up; it
// waits for the run under way as for any fiber. Stop() afterwards returns at once, and Start() is for the next runtime.
//
// How it works. The fiber waits on a condition variable until the next run is due. A timer that is never enabled tells
// it of the runtime's end: such timers are dropped there, and their callbacks destroyed, before fibers are waited for.
//
// Invariants
//   PT1  The function runs in `fiber_` only.
//   PT2  After RequestStop() no run begins.
//   PT3  `end_of_runtime_` refers to us until Stop() has killed it, and requests a stop when it is destroyed.
// Rejected: a periodic timer (a run would begin in a new fiber, and nobody would be waited for).
#ifndef WEFT_FIBER_PERIODIC_TASK_H_
#define WEFT_FIBER_PERIODIC_TASK_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

class PeriodicTask {
 public:
  // When the next run is due: kFixedRate: each period, counted from the start; kFixedDelay: a period after the end of a
  // run.
  enum class Pace : std::uint8_t { kFixedRate, kFixedDelay };

  // When and how it runs. To be changed at any time: SetSettings().
  struct Settings {
    // Above 0.
    std::chrono::nanoseconds period{};
    // Each run is due earlier or later by a random time of at most this, so that tasks that started together part.
    // 0 to half of the period. The periods of kFixedRate are counted without it.
    std::chrono::nanoseconds jitter{};
    // What the period is counted from.
    Pace pace = Pace::kFixedRate;
    // Of Start(): the first run is at once, not after a period.
    bool run_at_once = false;
    // An exception of the function ends the task; otherwise it is logged, and the task goes on.
    bool stop_on_exception = false;
  };

  // Not started.
  PeriodicTask() = default;
  ~PeriodicTask() { StopShielded(); }
  PeriodicTask(const PeriodicTask&) = delete;
  PeriodicTask& operator=(const PeriodicTask&) = delete;

  // Begins. `name` is the fiber's. False: refused, as the start of a Fiber; `f` has not run and is destroyed. Aborts if
  // it was started and not stopped since, and for settings that cannot be.
  [[nodiscard]] bool Start(std::string name, const Settings& settings, UniqueFunction<void()> f);

  // No run begins any more; the one under way goes on.
  void RequestStop() noexcept;

  // The same; returns when the run under way has ended and the function is destroyed; at once if nothing is started.
  void Stop();

  // One more run as soon as possible: at once, or after the one under way. Does not wait for it. It moves no other run,
  // but with kFixedDelay the next. Several calls before it begins make one run.
  void ForceStep();

  // From now on: the next run is due as if they had been in force since the last. Aborts for settings that cannot be.
  void SetSettings(const Settings& settings);
  // Those in force.
  Settings settings() const;

  // False: it was never started, or no run will begin any more.
  bool IsRunning() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  class StopsAtItsEnd;

  void StopShielded() noexcept;

  // The fiber's.
  void Loop(const std::string& name);
  bool AwaitTurn(std::unique_lock<FiberMutex>* lock);
  bool RunOnce(const std::string& name);
  // With the mutex held.
  Deadline NextDue() const;
  void OnRunEnded(TimePoint now);
  void DrawOffset();

  Fiber fiber_;                       // of Start() and Stop()
  base::UniqueFunction<void()> f_;    // the fiber's, while there is one
  std::uint64_t end_of_runtime_ = 0;  // a timer's id

  mutable FiberMutex mutex_;  // guards all that follows, but for the condition variable
  FiberConditionVariable changed_;
  Settings settings_;
  std::uint64_t runner_ = 0;  // the fiber's id
  bool running_ = false;
  bool stopping_ = false;
  bool forced_ = false;
  TimePoint last_due_;                 // kFixedRate: the last run, without its jitter
  TimePoint last_end_;                 // kFixedDelay
  std::chrono::nanoseconds offset_{};  // the jitter of the next run
  std::uint64_t random_ = 0;
};

}  // namespace weft

#endif  // WEFT_FIBER_PERIODIC_TASK_H_
