// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LoopCore: the implementation of FiberLoop. It has a loop group, that group's worker and timers, and runs them on the
// owner's thread.
//
//     out  --Begin-->  in: timers, poller, fibers, again and again  --End-->  out
//                      |                                            ^
//                      +--nothing ready (Run): wait ----------------+
//
// While it is in, users' functions run in its main context: predicates, and what fibers have called there. A wait in
// one of them runs the same rounds, below it (RunUntilUnparked()). From there, too, another loop of the thread may be
// entered: this one rests until that one is out.
//
// Out: the worker has announced that it sleeps (IW1), and whoever makes a fiber ready writes to the descriptor; or the
// descriptor has been made readable, because something is left. In: nobody need tell it anything.
//
// Invariants
//   LDR2  While it is in, the thread is the group's worker, and in a ReadSection, since workers enter none and the
//        runtime's end must wait for its use of the runtime's groups (so TerminateRuntime() waits for the turn of the
//        fiber that runs). The loop leaves the section to look after timers, and while it waits.
//   LDR3  A wake-up between a look at the predicate and the wait is not lost: the predicate is asked once more after
//        the sleep has been announced, and Wake() ends an announced sleep.
//   LDR4  Under a test clock (base/time/test_time.h) the loop is a runner while it is in and does not wait. A loop
//        whose descriptor is open waits while it is out, too (test_wait_), and is a runner while that is readable.
//        Nobody can tell the thread of a loop without a descriptor that a time has come: time passes over its
//        deadlines.
//   LDR5  While another loop of the thread is in above it, it is in no ReadSection, and no runner. Its
//        timers and fibers wait. The last one entered is left first, also by an exception.
//   LDR6  The loop runs below a wait of a predicate or of a function that a fiber has called, and below no other: the
//        callbacks of timers, and the poller's work, are not to be entered twice. A fiber that one of them has begun
//        eagerly may call such a function; it begins afterwards.
#ifndef WEFT_FIBER_LOOP_LOOP_CORE_H_
#define WEFT_FIBER_LOOP_LOOP_CORE_H_

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "weft/base/time/test_time.h"
#include "weft/fiber/fiber_loop_options.h"
#include "weft/fiber/loop/loop_descriptor.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/worker/thread_parker.h"
#include "weft/scheduling_group/worker/worker.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft {
class FiberExecutionContext;
class FiberLoop;
}  // namespace weft

namespace weft::fiber::detail {

class LoopCore : public scheduling_group::MainContext {
 public:
  using Predicate = bool (*)(void* argument);

  LoopCore(FiberLoop* loop, FiberLoopOptions options);
  LoopCore(const LoopCore&) = delete;
  LoopCore& operator=(const LoopCore&) = delete;
  // MayBeDestroyed() has said true.
  ~LoopCore();  // NOLINT: not virtual; nobody destroys a MainContext.

  // False: the process ends, or has been forked: it must be left as it is. Ends the process if tasks are left (LUP3).
  bool MayBeDestroyed();

  // Of the fiber, or the main context, that calls; nullptr: of neither.
  static LoopCore* OfCaller() noexcept;

  FiberLoop* loop() const noexcept { return loop_; }
  const FiberLoopOptions& options() const noexcept { return options_; }
  scheduling_group::SchedulingGroup& group() const noexcept { return group_->group; }
  std::size_t live_fibers() const noexcept { return group_->live_fibers(); }

  void CheckOwner(const char* caller) const;

  // The owner. `fiber` is new.
  void RunEagerly(scheduling_group::FiberEntity* fiber);
  void CallInMainContext(void (*call)(void* argument), void* argument);

  // The owner's thread, out. limit: 0: none.
  void RunReady(const char* caller, std::chrono::nanoseconds limit);
  bool RunUntilTrue(const char* caller, Predicate predicate, void* argument, Deadline deadline);

  // --- MainContext ---
  scheduling_group::SchedulingGroup* Group() noexcept override { return &group_->group; }
  void RunUntilUnparked(base::Parker* parker, Deadline deadline) noexcept override;
  bool RunSome() noexcept override;

  // Any thread.
  void EndWait();
  // The owner's thread.
  int NotifyFd(std::error_code* error);
  Deadline NextDeadline() const noexcept;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  enum class Outcome { kNothingReady, kTimeIsUp, kStopped };

  struct GiveBack {
    void operator()(scheduling_group::LoopGroup* group) const { scheduling_group::LoopGroups::GiveBack(group); }
  };

  // The loop is in as long as one lives.
  class In;

  // The loop's wait, while it waits in the descriptor or is out.
  class TestWait final : public base::TestTimeWait {
   public:
    explicit TestWait(LoopCore* core) : core_(*core) {}
    bool WasWoken() const noexcept override;
    void Expire() noexcept override { core_.EndWait(); }

   private:
    LoopCore& core_;
  };

  // While one lives, a user's function runs in the main context; or none, again.
  class InMainContext;

  // Whether the descriptor had been marked readable.
  bool Begin(const char* caller);
  void End(bool mark);
  void BeginRest();
  void EndRest();
  bool IsInFiber(const char* caller) const;
  bool Ask(Predicate predicate, void* argument);
  bool AskAsleep(Predicate predicate, void* argument);
  bool RunWhileIn(Predicate predicate, void* argument, Deadline deadline);
  // until: by FiberClock. longest: by the machine's clock; 0: no limit.
  Outcome RunRounds(TimePoint until, std::chrono::nanoseconds longest, Predicate stop, void* argument);
  void WakeUp();
  void LookAfterTimers();
  bool PollFoundWork();
  TimePoint NextTime() const noexcept;
  void WaitUntil(TimePoint until);
  void WaitInPoll(TimePoint until);
  void BeginTestWait(base::Waits who);
  void GoInInTestTime();
  void GoOutInTestTime();
  bool HoldPoller();
  void LeavePoller();

  FiberLoop* const loop_;
  const FiberLoopOptions options_;
  const std::thread::id owner_ = std::this_thread::get_id();
  const std::unique_ptr<scheduling_group::LoopGroup, GiveBack> group_;  // Given back last.
  LoopDescriptor descriptor_;
  timer::TimerWorker timers_;
  bool watched_ = false;  // Watchdog::AddTeam()
  bool in_ = false;
  LoopCore* outer_ = nullptr;                 // LDR5: the loop in whose main context this one was entered
  FiberExecutionContext* context_ = nullptr;  // of Begin()'s caller: the callbacks'
  bool asleep_ = false;                       // out, and has announced that
  bool announced_ = false;                    // in, and has announced that it sleeps
  bool holds_poller_ = false;                 // Reactor::TryEnter(), while asleep
  const bool has_test_time_ = base::HasTestTime();
  TestWait test_wait_{this};
  bool test_waits_ = false;           // BeginTestWait(), out
  timer::Tick next_ = timer::kNever;  // what RunDue() said last
  TimePoint retry_stack_at_;          // for fibers that found no stack (SG2)
  std::optional<scheduling_group::ReadSection> section_;
  scheduling_group::Worker worker_;  // Last: made when all else is there.
};

class LoopCore::In {
 public:
  // kLooksAtNothing: at no timer and no predicate. Whoever watches the descriptor must still do it (LDR1).
  enum Look { kLooks, kLooksAtNothing };

  In(LoopCore* core, const char* caller, Look look = kLooks)
      : core_(*core), mark_(core_.Begin(caller) && look == kLooksAtNothing) {}
  ~In() { core_.End(mark_); }
  In(const In&) = delete;
  In& operator=(const In&) = delete;

 private:
  LoopCore& core_;
  const bool mark_;
};

class LoopCore::InMainContext {
 public:
  explicit InMainContext(LoopCore* core) noexcept : InMainContext(&core->worker_, core) {}
  InMainContext(scheduling_group::Worker* worker, MainContext* main_context) noexcept
      : worker_(*worker), before_(std::exchange(worker->main_context, main_context)) {}
  ~InMainContext() { worker_.main_context = before_; }
  InMainContext(const InMainContext&) = delete;
  InMainContext& operator=(const InMainContext&) = delete;

 private:
  scheduling_group::Worker& worker_;
  MainContext* const before_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_LOOP_LOOP_CORE_H_
