// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/loop/loop_core.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/runtime/runtime_hooks.h"
#include "weft/fiber/runtime/unfinished_fibers.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/watch/watchdog.h"

namespace weft::fiber::detail {

namespace {

using scheduling_group::CurrentWorker;
using scheduling_group::LoopGroup;
using scheduling_group::LoopGroups;
using scheduling_group::MainContext;
using scheduling_group::Reactor;
using scheduling_group::SchedulingGroup;
using scheduling_group::Worker;
using scheduling_group::WorkerBase;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kStackSize = 128 * 1024;
constexpr std::size_t kGuardSize = 64 * 1024;

// As workers do (worker.cc).
constexpr std::chrono::milliseconds kRetryStackEvery{10};
// How late input and output may be noticed where the system has no descriptor left for the loop.
constexpr std::chrono::milliseconds kPollUnwatched{1};

[[noreturn]] void FailInFiber(const char* caller) {
  const auto* const self = scheduling_group::CurrentFiber();
  WEFT_FATAL(caller, ": a thread that runs a fiber cannot run a loop, but in RunInMainContext(); the caller is ",
             self != nullptr ? DescribeFiber(*self) : std::string("a timer's callback, or ends a fiber"));
}

void CheckNotInFiber(const char* caller) {
  if (CurrentWorker() != nullptr && MainContext::OfCaller() == nullptr) FailInFiber(caller);
}

// The signal handlers' stack of a thread that has loops.
struct SignalStack {
  unsigned loops = 0;
  context::AlternateSignalStack* stack = nullptr;
};
thread_local constinit SignalStack signal_stack;

void NeedSignalStack() {
  if (signal_stack.loops++ == 0) signal_stack.stack = new context::AlternateSignalStack;
}

void DropSignalStack() {
  if (--signal_stack.loops == 0) delete std::exchange(signal_stack.stack, nullptr);
}

LoopGroup* BorrowGroup(const FiberLoopOptions& options) {
  CheckNotInFiber("FiberLoop");
  EnsureRuntimeHooks();
  scheduling_group::UseHeavyFenceForReadSections();
  CheckAttributes("FiberLoop", {.stack_size = options.stack_size, .stack_guard_size = options.stack_guard_size});
  scheduling_group::GroupOptions group;
  group.stack_size = options.stack_size != 0 ? options.stack_size : kStackSize;
  group.guard_size = options.stack_guard_size != 0 ? options.stack_guard_size : kGuardSize;
  group.record_stack_every = options.record_stack_every;
  LoopGroup* const borrowed = LoopGroups::Borrow(std::move(group));
  WEFT_CHECK(borrowed != nullptr, "FiberLoop: at most ", LoopGroups::kMost, " loops");
  return borrowed;
}

timer::TimerWorker::Options TimerOptions(SchedulingGroup* group) {
  timer::TimerWorker::Options options;
  options.group = group;
  options.for_all_threads = false;
  if (base::HasTestTime()) options.clock = &base::the_fiber_time;
  return options;
}

}  // namespace

LoopCore::LoopCore(FiberLoop* loop, FiberLoopOptions options)
    : loop_(loop),
      options_(std::move(options)),
      group_(BorrowGroup(options_)),
      descriptor_(group_.get()),
      timers_(TimerOptions(&group_->group)),
      worker_(&group_->group, 0) {
  NeedSignalStack();
  group_->loop = this;
  watched_ = scheduling_group::Watchdog::Get().AddTeam();
  if (!watched_) WEFT_LOG(WARNING, "FiberLoop ", options_.name, ": the system gives no thread for time slices");
}

bool LoopCore::MayBeDestroyed() {
  if (group_->forks != LoopGroups::Forks()) return false;
  CheckNotInFiber("FiberLoop::~FiberLoop");
  CheckOwner("FiberLoop::~FiberLoop");
  WEFT_CHECK(!in_, "FiberLoop::~FiberLoop: the loop runs, by the caller of the caller");
  if (live_fibers() == 0) return true;
  if (base::IsInExit()) return false;
  WEFT_FATAL("FiberLoop::~FiberLoop: loop \"", options_.name, "\" has ", live_fibers(),
             " tasks that have not ended: ", ListFibersAlive(&group_->group), "; call Run() before");
}

LoopCore::~LoopCore() {
  if (has_test_time_) GoInInTestTime();
  if (asleep_) WakeUp();
  timers_.Stop();
  if (watched_) scheduling_group::Watchdog::Get().RemoveTeam();
  DropSignalStack();
  group_->loop = nullptr;
  if (has_test_time_) base::TestTime::Rested();
}

LoopCore* LoopCore::OfCaller() noexcept {
  const WorkerBase* const worker = CurrentWorker();
  if (worker == nullptr || !worker->of_loop) return nullptr;
  return static_cast<LoopCore*>(LoopGroup::Of(worker->group)->loop);
}

void LoopCore::CheckOwner(const char* caller) const {
  WEFT_CHECK(group_->forks == LoopGroups::Forks(), caller, ": the loop was made before the process was forked");
  // A loop's fibers never leave its thread.
  WEFT_CHECK(std::this_thread::get_id() == owner_, caller,
             ": the caller is neither the thread that made the loop nor a fiber of the loop");
}

bool LoopCore::Begin(const char* caller) {
  CheckNotInFiber(caller);
  CheckOwner(caller);
  WEFT_CHECK(!in_, caller, ": the loop runs already, by a caller of the caller; a wait in its main context runs ",
             "its fibers");
  in_ = true;
  outer_ = OfCaller();
  context_ = FiberExecutionContext::Current();
  if (has_test_time_) GoInInTestTime();
  if (std::exchange(asleep_, false)) WakeUp();
  const bool marked = descriptor_.Clear();  // LDR1
  section_.emplace(nullptr);
  if (outer_ != nullptr) outer_->BeginRest();
  worker_.BeginLoop();
  return marked;
}

// LDR5
void LoopCore::BeginRest() {
  section_.reset();
  if (has_test_time_) base::TestTime::Rested();
}

void LoopCore::EndRest() {
  if (has_test_time_) base::TestTime::Ran();
  section_.emplace(nullptr);
}

void LoopCore::End(bool mark) {
  // Again: a wake-up that came late has been kept for this sleep.
  while (!asleep_ && worker_.AnnounceSleep()) asleep_ = worker_.SleepElsewhere();
  if (asleep_) {
    const bool watched = HoldPoller();
    next_ = timers_.AnnounceSleep();
    if (!has_test_time_) {
      descriptor_.ReadableAt(watched ? NextTime() : std::min(NextTime(), Clock::now() + kPollUnwatched));
    }
  }
  if (mark || !asleep_) descriptor_.MarkReadable();
  worker_.EndLoop();
  if (outer_ != nullptr) std::exchange(outer_, nullptr)->EndRest();
  section_.reset();
  if (has_test_time_) GoOutInTestTime();
  in_ = false;
}

// While it is asleep nobody else looks after the poller, whose watchdog need not know. False: nor does the descriptor.
bool LoopCore::HoldPoller() {
  Reactor* const poller = group().reactor();
  if (poller == nullptr) return true;
  const bool watched = descriptor_.Watch(poller->descriptor());
  holds_poller_ = poller->TryEnter();
  return watched;
}

void LoopCore::LeavePoller() {
  if (std::exchange(holds_poller_, false)) group().reactor()->LeaveAfterDispatch();
}

void LoopCore::WakeUp() {
  worker_.WakeUp();
  LeavePoller();
  timers_.WakeUp();
}

void LoopCore::LookAfterTimers() {
  section_.reset();
  section_.emplace(nullptr);  // LDR2
  next_ = timers_.RunDue();
  if (group().HasFibersWithoutStack() && Clock::now() >= retry_stack_at_) {
    retry_stack_at_ = Clock::now() + kRetryStackEvery;
    group().StackGivenBack();
  }
  if (Reactor* const poller = group().reactor()) poller->PollIfDue(Clock::now());
}

bool LoopCore::PollFoundWork() {
  Reactor* const poller = group().reactor();
  if (poller == nullptr) return false;
  poller->TryPoll();
  return group_->policy().HasWork();
}

LoopCore::Outcome LoopCore::RunRounds(TimePoint until, std::chrono::nanoseconds longest, Predicate stop,
                                      void* argument) {
  const TimePoint no_longer_than = longest.count() > 0 ? Clock::now() + longest : TimePoint::max();
  for (;;) {
    if (stop != nullptr && Ask(stop, argument)) return Outcome::kStopped;
    LookAfterTimers();
    const bool ran = worker_.RunNext();
    if (!ran && !group_->policy().HasWork() && !PollFoundWork()) return Outcome::kNothingReady;
    if (until != TimePoint::max() && FiberClock::now() >= until) return Outcome::kTimeIsUp;
    if (no_longer_than != TimePoint::max() && Clock::now() >= no_longer_than) return Outcome::kTimeIsUp;
  }
}

void LoopCore::RunReady(const char* caller, std::chrono::nanoseconds limit) {
  const In in(this, caller);
  static_cast<void>(RunRounds(TimePoint::max(), limit, nullptr, nullptr));
}

bool LoopCore::RunUntilTrue(const char* caller, Predicate predicate, void* argument, Deadline deadline) {
  const In in(this, caller);
  return RunWhileIn(predicate, argument, deadline);
}

bool LoopCore::RunWhileIn(Predicate predicate, void* argument, Deadline deadline) {
  for (;;) {
    switch (RunRounds(deadline.time_point(), std::chrono::nanoseconds(0), predicate, argument)) {
      case Outcome::kStopped:
        return true;
      case Outcome::kTimeIsUp:
        return Ask(predicate, argument);
      case Outcome::kNothingReady:
        break;
    }
    if (!worker_.AnnounceSleep()) continue;
    if (AskAsleep(predicate, argument)) return true;
    if (!std::exchange(announced_, false)) {  // It has waited: look again.
      if (deadline.expired()) return false;
      continue;
    }
    if (deadline.expired()) {
      worker_.WakeUp();
      return false;
    }
    section_.reset();
    WaitUntil(deadline.time_point());
    section_.emplace(nullptr);
  }
}

LoopCore::TimePoint LoopCore::NextTime() const noexcept {
  const TimePoint timers = timer::BeginOfTick(next_);
  if (has_test_time_) return timers;  // The retry is by the machine's clock: WaitInPoll().
  return group().HasFibersWithoutStack() ? std::min(timers, retry_stack_at_) : timers;
}

// The sleep has been announced.
void LoopCore::WaitUntil(TimePoint until) {
  next_ = timers_.AnnounceSleep();
  until = std::min(until, NextTime());
  Reactor* const poller = group().reactor();
  if (poller != nullptr && !descriptor_.Open() && descriptor_.Watch(poller->descriptor())) {
    WaitInPoll(until);
  } else {
    // Without a descriptor nobody tells of input and output: look again soon.
    if (poller != nullptr && has_test_time_) {
      WEFT_LOG_EVERY_SECOND(ERROR, "FiberLoop ", options_.name,
                            ": no descriptor left: under a TestClock its input and output are not noticed");
    }
    if (poller != nullptr && !has_test_time_) until = std::min(until, Clock::now() + kPollUnwatched);
    worker_.SleepUntil(until);
  }
  timers_.WakeUp();
}

void LoopCore::WaitInPoll(TimePoint until) {
  if (!worker_.SleepElsewhere()) return;
  static_cast<void>(HoldPoller());
  if (has_test_time_) {
    test_wait_.deadline = until;
    base::TestTime::BeginWait(&test_wait_, base::Waits::kRunner);
  } else {
    descriptor_.ReadableAt(until);
  }
  pollfd entry{.fd = descriptor_.Get(), .events = POLLIN, .revents = 0};
  const bool retries = has_test_time_ && group().HasFibersWithoutStack();
  const int found = ::poll(&entry, 1, retries ? static_cast<int>(kRetryStackEvery.count()) : -1);
  WEFT_CHECK(found >= 0 || errno == EINTR, "FiberLoop: poll fails with error ", errno);  // EINTR: look again.
  if (has_test_time_) base::TestTime::EndWait(&test_wait_, base::Waits::kRunner);
  worker_.WakeUp();
  LeavePoller();
  static_cast<void>(descriptor_.Clear());  // LDR1
}

bool LoopCore::TestWait::WasWoken() const noexcept {
  pollfd entry{.fd = core_.descriptor_.Get(), .events = POLLIN, .revents = 0};
  return !core_.group().worker_slot(0).parker.waits_elsewhere() || ::poll(&entry, 1, 0) > 0;
}

// Out, with a descriptor.
void LoopCore::BeginTestWait(base::Waits who) {
  test_waits_ = true;
  test_wait_.deadline = asleep_ ? NextTime() : TimePoint::max();
  base::TestTime::BeginWait(&test_wait_, who);
}

// Before anything else: no timer and no event comes while the gate is closed.
void LoopCore::GoInInTestTime() {
  if (std::exchange(test_waits_, false)) {
    base::TestTime::EndWait(&test_wait_, base::Waits::kRunner);
  } else {
    base::TestTime::Ran();
  }
}

void LoopCore::GoOutInTestTime() {
  if (descriptor_.IsOpen()) {
    BeginTestWait(base::Waits::kRunner);
  } else {
    base::TestTime::Rested();
  }
}

void LoopCore::EndWait() { group().Notify(); }

int LoopCore::NotifyFd(std::error_code* error) {
  const std::error_code failed = descriptor_.Open();
  if (has_test_time_ && !failed && !in_ && !test_waits_) {
    BeginTestWait(base::Waits::kThread);
  }
  if (error != nullptr) *error = failed;
  return descriptor_.Get();
}

Deadline LoopCore::NextDeadline() const noexcept {
  if (group_->policy().HasWork() || !asleep_) return std::chrono::nanoseconds(0);
  return NextTime();
}

// --- Users' functions in the loop's main context, and their waits ---

// Whether the caller is a fiber of the loop. It may be none of another loop of the thread.
bool LoopCore::IsInFiber(const char* caller) const {
  const WorkerBase* const worker = CurrentWorker();
  if (worker == nullptr || worker->current == nullptr) return false;
  WEFT_CHECK(worker == &worker_, caller, ": the caller is ", DescribeFiber(*worker->current), ", of another loop");
  return true;
}

bool LoopCore::Ask(Predicate predicate, void* argument) {
  const InMainContext in(this);
  return predicate(argument);
}

// LDR3. The sleep has been announced, and still is, unless the predicate says true, throws or has waited.
bool LoopCore::AskAsleep(Predicate predicate, void* argument) {
  announced_ = true;
  bool is_over = false;
  try {
    is_over = Ask(predicate, argument);
  } catch (...) {
    if (std::exchange(announced_, false)) worker_.WakeUp();
    throw;
  }
  if (is_over && std::exchange(announced_, false)) worker_.WakeUp();
  return is_over;
}

void LoopCore::RunUntilUnparked(base::Parker* parker, Deadline deadline) noexcept {
  if (std::exchange(announced_, false)) worker_.WakeUp();
  const Worker::LoopCallWaits waits(&worker_);
  const FiberExecutionContext::Scope scope(context_);
  static_cast<void>(RunWhileIn([](void* argument) { return !static_cast<base::Parker*>(argument)->waits_elsewhere(); },
                               parker, deadline));
}

bool LoopCore::RunSome() noexcept {
  if (std::exchange(announced_, false)) worker_.WakeUp();
  const Worker::LoopCallWaits waits(&worker_);
  const FiberExecutionContext::Scope scope(context_);
  LookAfterTimers();
  return worker_.RunNext() || PollFoundWork();
}

void LoopCore::RunEagerly(scheduling_group::FiberEntity* fiber) {
  constexpr const char* kName = "FiberLoop::AddTaskEager";
  struct Start {
    Worker* worker;
    scheduling_group::FiberEntity* fiber;
  } start{.worker = &worker_, .fiber = fiber};
  if (IsInFiber(kName)) {
    return worker_.CallOnLoop(
        worker_.current, Worker::LoopCallKind::kAtOnce,
        [](void* argument) { static_cast<Start*>(argument)->worker->RunEagerly(static_cast<Start*>(argument)->fiber); },
        &start);
  }
  std::optional<In> in;
  std::optional<Worker::LoopCallsQueue> queue;
  if (CurrentWorker() != &worker_) {
    in.emplace(this, kName, In::kLooksAtNothing);
  } else if (worker_.main_context == nullptr) {
    queue.emplace(&worker_);  // LDR6: a timer's callback calls. RunNext(), which follows, serves the calls.
  }
  const InMainContext none(&worker_, nullptr);
  worker_.RunEagerly(fiber);
}

void LoopCore::CallInMainContext(void (*call)(void*), void* argument) {
  constexpr const char* kName = "FiberLoop::RunInMainContext";
  struct Call {
    LoopCore* core;
    void (*call)(void*);
    void* argument;

    static void Run(void* self) {
      const auto [core, call, argument] = *static_cast<const Call*>(self);
      const InMainContext in(core);
      call(argument);
    }
  } in_main_context{.core = this, .call = call, .argument = argument};
  if (IsInFiber(kName)) {
    return worker_.CallOnLoop(worker_.current, Worker::LoopCallKind::kMayWait, &Call::Run, &in_main_context);
  }
  if (in_) return call(argument);
  const In in(this, kName, In::kLooksAtNothing);
  Call::Run(&in_main_context);
}

}  // namespace weft::fiber::detail
