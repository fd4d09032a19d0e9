// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/worker.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "weft/base/time/test_time.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/gdb_layout.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/policy/policy_loop.h"

namespace weft::scheduling_group {
namespace {

using Clock = std::chrono::steady_clock;

// How often idle workers retry fibers that found no stack, if no fiber ends meanwhile.
constexpr std::chrono::milliseconds kRetryStackEvery{10};

// Returns the time at its end.
Clock::time_point PauseBetweenSearches(std::chrono::nanoseconds at_least) noexcept {
  const auto until = at_least.count() != 0 ? Clock::now() + at_least : Clock::time_point::min();
  for (;;) {
    for (int i = SpinPolicy::kPausesPerSearch; i > 0; --i) base::CpuRelax();
    if (const auto now = Clock::now(); now >= until) return now;
  }
}

}  // namespace

Worker::Worker(SchedulingGroup* owner, unsigned index_in_group)
    : counters_(&owner->worker_slot(index_in_group).counters),
      stacks_(&owner->stacks()),
      stacks_until_record_(owner->group_stacks().record_every()),
      slice_(counters_, &current, owner, index_in_group) {
  KeepGdbLayout();
  group = owner;
  group_id = owner->id();
  index = index_in_group;
  of_loop = owner->of_loop();
  yield_current = [](WorkerBase* worker) { static_cast<Worker*>(worker)->YieldCurrent(); };
  yield_after_slice = [](WorkerBase* worker) { static_cast<Worker*>(worker)->YieldAfterSlice(); };
  run_instead_of_current = [](WorkerBase* worker, FiberEntity* next) {
    static_cast<Worker*>(worker)->RunInstead(worker->current, SwitchReason::kDisplaced, next);
  };
  next_steal_search_.assign(owner->neighbours().all.size(), 0);
  if (!of_loop) return;
  context::InitThreadState(this);
  context::InitThreadContext(&loop_);
  loop_is_out_.emplace(&slice_);
}

Worker::~Worker() {
  if (!of_loop) return;
  Recorder::Retire(this);
  stacks_.Clear();
  context::DestroyContext(&loop_);
}

bool Worker::Run() {
  context::InitThreadState(this);
  context::InitThreadContext(&loop_);
  SetCurrentWorker(this);
  WorkerLife& life = group->worker_slot(index).life;
  life.Begin(&current);
  const base::TestTimeRun runs;
  while (FiberEntity* fiber = NextFiber()) {
    CheckOverflowHandlerAtTimes();
    RecordEntry(fiber);
    SwitchTo(nullptr, SwitchReason::kNothing, fiber);
  }
  Recorder::Retire(this);
  const bool in_time = life.BeginEnd();
  stacks_.Clear();
  SetCurrentWorker(nullptr);
  context::DestroyContext(&loop_);
  return in_time;
}

// What a worker does without a fiber: it searches, spins, steals and sleeps, as idle_loop.h says, whose Worker it is.
class Worker::IdleSide {
 public:
  using Fiber = FiberEntity;
  using Group = SchedulingGroup;

  explicit IdleSide(scheduling_group::Worker* worker)
      : worker_(*worker), worker_slot_(worker->group->worker_slot(worker->index)) {}

  Group& group() const { return *worker_.group; }
  unsigned index() const { return worker_.index; }
  bool Stopping() const { return group().stopping(); }
  Fiber* Find() { return worker_.FindFiber(); }
  Fiber* Spin();
  bool HasWork() const { return group().policy().HasWork(); }
  void Notify() { group().Notify(); }
  Fiber* StealNowAndThen();
  Fiber* StealFrom(Group& victim);
  static constexpr std::size_t kSeenBySteal = GlobalQueue::kMostTries;
  // Half a steal more, because the size is an estimate that may be too small by the number of pushes under way.
  std::size_t FibersToSee(const Group& victim) const { return victim.policy().Size() + kSeenBySteal / 2; }
  void NothingFound() {
    TellDrainWaiter();
    WorkerCounters::Add(counters().sleeps);
  }
  Errand<Group> Sleep();
  Group* TakeErrand() { return TakeErrandFrom(worker_slot_.sent_to); }
  void Park() { worker_slot_.parker.Park(); }
  SpinPolicy& spin_policy() { return worker_.spin_policy_; }
  void SearchAgainAfter(std::chrono::nanoseconds nap);
  void NapInSearch();

 private:
  WorkerCounters& counters() { return worker_.counters(); }
  // The clock of steal_every_n (SG5).
  std::uint64_t idle_searches() { return counters().idle_searches.load(std::memory_order_relaxed); }
  Fiber* SpinForFiber();
  Fiber* PopFromBusyWorkers();
  Fiber* StealFromNeighbour(std::size_t neighbour);
  Errand<Group> SleepInPoll(Reactor* poller);
  void SleepUntilRetry();
  Errand<Group> CountedGetUp();

  scheduling_group::Worker& worker_;
  SchedulingGroup::WorkerSlot& worker_slot_;
};

FiberEntity* Worker::NextFiber() {
  IdleSide side(this);
  if (stealing_ && !group->stopping()) {  // W4: it may be one that cannot be left behind any more (WL1).
    // The last fiber was stolen, and its group likely has more. Spinning first would cost a fifth of the time where
    // fibers run for 25 us (bench/fiber/work_conservation_benchmark.cc).
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr && !group->policy().HasWork()) fiber = side.StealNowAndThen();
    if (fiber != nullptr) return fiber;
  }
  return NextFiberWhenIdle(side);
}

FiberEntity* Worker::IdleSide::Spin() {
  WorkerCounters::Add(counters().spins);
  // A worker woken for a fiber finds it at once, before the first reading of the clock.
  if (FiberEntity* fiber = Find()) return fiber;
  worker_.spin_memory_.Forget();
  spin_policy().BeginSpin(group().options().spin_for);
  FiberEntity* fiber = SpinForFiber();
  spin_policy().EndSpin(fiber != nullptr);
  return fiber;
}

// nullptr: nothing was found.
FiberEntity* Worker::IdleSide::SpinForFiber() {
  Reactor* poller = group().reactor();
  while (!group().stopping()) {
    FiberEntity* fiber = Find();
    if (fiber == nullptr) fiber = PopFromBusyWorkers();
    if (fiber != nullptr) return fiber;
    if (poller != nullptr) poller->TryPoll();
    // Only a long spin sees two samples of a busy worker's slot (HS2).
    const bool hand_offs = worker_.spin_memory_.active;
    if (!spin_policy().GoesOn(hand_offs, [this] { return HasWork(); })) break;
    const auto now = PauseBetweenSearches(SpinPolicy::PauseTime(hand_offs));
    if (spin_policy().IsOver(now, hand_offs, [this] { return group().idle().spinners() == 1; })) break;
  }
  return nullptr;
}

FiberEntity* Worker::IdleSide::PopFromBusyWorkers() {
  FiberEntity* fiber = group().policy().PopFromBusyWorkers(index(), &worker_.spin_memory_);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(counters().peer_takes);
  return worker_.PrepareToEnter(fiber) ? fiber : nullptr;
}

FiberEntity* Worker::IdleSide::StealNowAndThen() {
  const auto& neighbours = group().neighbours();
  WorkerCounters::Add(counters().idle_searches);
  for (std::size_t i = 0; i < neighbours.all.size(); ++i) {
    if (neighbours.all[i].steal_every_n == 0 || idle_searches() < worker_.next_steal_search_[i]) continue;
    FiberEntity* fiber = StealFromNeighbour(i);
    if (fiber == nullptr) continue;
    RequestSteal(*neighbours.all[i].group);  // No fiber needs it (RS4).
    return fiber;
  }
  worker_.stealing_ = false;
  return nullptr;
}

// Steals at once, whatever the rate. nullptr also if this group may not steal from it.
FiberEntity* Worker::IdleSide::StealFrom(Group& victim) {
  const auto& all = group().neighbours().all;
  const auto found =
      std::find_if(all.begin(), all.end(), [&victim](const auto& other) { return other.group == &victim; });
  if (found == all.end() || found->steal_every_n == 0) return nullptr;
  return StealFromNeighbour(static_cast<std::size_t>(found - all.begin()));
}

FiberEntity* Worker::IdleSide::StealFromNeighbour(std::size_t neighbour) {
  const auto& neighbours = group().neighbours();
  const auto [victim, every_n, distance] = neighbours.all[neighbour];
  StealCounters& of_pair = neighbours.counters(index(), neighbour);
  WorkerCounters::Add(of_pair.attempts);
  FiberEntity* fiber = victim->PopForSteal(distance);
  // After a success the next search tries again, until nothing waits there.
  worker_.next_steal_search_[neighbour] = idle_searches() + (fiber != nullptr ? 1 : every_n);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(of_pair.stolen_in);
  Recorder::Note(EventKind::kStolen, fiber->id(), static_cast<std::uint64_t>(victim->id()));
  if (fiber->ready_stamp) [[unlikely]] {
    group().RecordStolenWait(index(), fiber);
  }
  group().TakeOver(fiber);
  if (!worker_.PrepareToEnter(fiber)) return nullptr;
  worker_.stealing_ = true;
  return fiber;
}

void Worker::IdleSide::SearchAgainAfter(std::chrono::nanoseconds nap) {
  if (nap.count() != 0) {
    worker_slot_.parker.Nap(Clock::now() + nap);
  } else {
    base::CpuRelax();
  }
}

void Worker::IdleSide::NapInSearch() {
  if (Reactor* poller = group().reactor()) poller->TryPoll();  // It may be the one that would wait in the poll.
  base::Parker& parker = worker_slot_.parker;
  // A claim ends it, and its token is for the Sleep() that follows. (Nobody waits elsewhere: it returns false.)
  if (parker.ParkUntil(Clock::now() + SpinPolicy::kNap)) (void)parker.Unpark();
}

Errand<SchedulingGroup> Worker::IdleSide::Sleep() {
  group().CallIdleHook();
  const Watchdog::WatchedWorker::Asleep asleep(&worker_.slice_);
  if (group().HasFibersWithoutStack()) {
    SleepUntilRetry();
  } else if (Reactor* poller = group().reactor(); poller != nullptr && poller->TryEnter()) {
    return SleepInPoll(poller);
  } else {
    const base::TestTimeRest rests;
    Recorder::Note(EventKind::kSlept, 0, 0);
    worker_slot_.parker.Park();
  }
  return CountedGetUp();
}

Errand<SchedulingGroup> Worker::IdleSide::SleepInPoll(Reactor* poller) {
  IdleWorkers& idle = group().idle();
  Recorder::Note(EventKind::kSlept, 1, 0);
  idle.SetInPoll(index(), true);
  if (worker_slot_.parker.BeginWaitElsewhere()) {
    {
      const base::TestTimeRest rests;
      poller->Wait();
    }
    (void)worker_slot_.parker.EndWaitElsewhere();
  }
  idle.SetInPoll(index(), false);
  Errand<Group> errand = CountedGetUp();
  // The worker counts as a spinner during the dispatch, so that its pushes wake no worker. It takes the first fiber,
  // and wakes another worker if more are left.
  if (!errand.counted_as_spinner) errand.counted_as_spinner = idle.TryStartSpinning();
  poller->LeaveAfterDispatch();
  return errand;
}

void Worker::IdleSide::SleepUntilRetry() {
  worker_.stacks_.Clear();  // Other workers may need them.
  {
    const base::TestTimeRest rests;  // Those that have stacks may sleep.
    (void)worker_slot_.parker.ParkUntil(worker_.retry_stack_at_);
  }
  const auto now = Clock::now();
  if (now >= worker_.retry_stack_at_) {
    worker_.retry_stack_at_ = now + kRetryStackEvery;
    group().StackGivenBack();
  }
}

Errand<SchedulingGroup> Worker::IdleSide::CountedGetUp() {
  context::CheckOverflowHandlerNowAndThen();
  const Errand<Group> errand = GetUp(*this);
  const bool for_work = errand.counted_as_spinner || errand.steal_from != nullptr;
  if (for_work) WorkerCounters::Add(counters().wakes);
  // Not to its end: it would take the ring of one that has ended before.
  if (group().stopping()) return errand;
  Recorder::Note(EventKind::kGotUp, for_work ? 1 : 0, 0);
  return errand;
}

// Not inlined: it is large, and where it is called time does not count as it does in NextFiberFor().
WEFT_NOINLINE FiberEntity* Worker::Pop() { return group->PopFor(index); }

WEFT_NOINLINE FiberEntity* Worker::FindFiber() {
  while (FiberEntity* fiber = Pop()) {
    if (PrepareToEnter(fiber)) return fiber;
  }
  return nullptr;
}

// Checks when the worker leaves its loop for the 1st, 2nd, 4th, ... time: a program installs its signal handlers when
// it starts. For later ones see CountedGetUp().
void Worker::CheckOverflowHandlerAtTimes() {
  if (std::has_single_bit(++loop_left_)) [[unlikely]] {
    context::CheckOverflowHandler();
  }
}

// False: there is no stack, and the fiber waits for one.
WEFT_NOINLINE bool Worker::GiveStack(FiberEntity* fiber) {
  const context::KeepErrno keep(errno_location);  // of the fiber that makes room for it
  context::StackPool* pool = &group->stacks();
  void* top;
  if (!fiber->wants_own_stack()) [[likely]] {
    if (stacks_until_record_ != 0 && --stacks_until_record_ == 0) [[unlikely]] {
      // No other fiber takes it over, and it does not come back to the cache.
      top = group->group_stacks().AcquireMarked();
      fiber->set_custom_stack_pool(pool);
      stacks_until_record_ = group->group_stacks().record_every();
    } else {
      top = stacks_.Pop();
    }
  } else {
    pool = group->StacksOfSize(fiber->stack_size_, fiber->guard_size_);
    top = pool != nullptr ? pool->Acquire() : nullptr;
    fiber->set_custom_stack_pool(pool);
  }
  if (top == nullptr) {
    if (fiber->has_custom_stack()) fiber->set_custom_stack_pool(nullptr);
    fiber->state_.OnAcquireUndone();
    group->AddWithoutStack(fiber);
    return false;
  }
  fiber->stack_top_ = top;
  context::MakeContext(&fiber->context, top, pool->usable_size(), &Worker::FiberMain);
  WorkerCounters::Add(counters().begun);
  return true;
}

WEFT_NOINLINE void Worker::FinishRareSwitch(FiberEntity* fiber) {
  switch (switch_reason_) {
    case SwitchReason::kNothing:
    case SwitchReason::kYielded:  // FinishSwitch()
      break;
    case SwitchReason::kParked: {         // But a waker came meanwhile.
      const NoWaitSection not_the_fiber;  // The next one is the current one already, and has not woken it.
      group->Ready(fiber, ReadyReason::kWoken);
      break;
    }
    case SwitchReason::kPublished: {  // Not published: what it waited for has happened.
      const NoWaitSection not_the_fiber;
      fiber->state_.OnTaken();
      group->Ready(fiber, ReadyReason::kWoken);
      break;
    }
    case SwitchReason::kDisplaced:
      fiber->state_.OnYielded();
      group->Ready(fiber, ReadyReason::kDisplaced);
      break;
    case SwitchReason::kEnded:
      if (group->stopping() && !of_loop && !group->worker_slot(index).life.MayRetireFiber()) break;  // WL1
      GiveStackBack(fiber);
      counters().CountFinished();
      Retire(fiber);
      break;
  }
}

WEFT_NOINLINE void Worker::YieldCurrent() noexcept {
  FiberEntity* self = current;
  FiberEntity* next = NextFiberFor(self, EventKind::kYielded);
  if (next == nullptr && !group->stopping() && !of_loop) return;
  SwitchTo(self, SwitchReason::kYielded, next);
}

WEFT_NOINLINE void Worker::YieldAfterSlice() {
  if (!slice_.EndSlice() || current == nullptr || must_not_switch) return;
  // Fibers whose input or output has become ready are not in the queue yet.
  if (Reactor* poller = group->reactor()) {
    const NoWaitSection not_the_fiber;  // As in SchedulingGroup::PollAndPop().
    const context::KeepErrno keep(errno_location);
    poller->PollIfDue(std::chrono::steady_clock::now());
  }
  group->policy().SliceIsOver(index);
  YieldCurrent();
}

void Worker::RunInstead(FiberEntity* self, SwitchReason how, FiberEntity* next) {
  if (of_loop) static_cast<PolicyLoop&>(group->policy()).CountStarted();
  if (!PrepareToEnter(next)) {
    // `next` waits for a stack. The caller starts fibers faster than they end, so it waits too.
    YieldCurrent();
    return;
  }
  if (group->needs_attention()) {
    BeforeLeaving(self);
    RecordSwitch(EventKind::kYielded, self, next);
  }
  SwitchTo(self, how, next);
}

namespace {

// The fiber called fork(), and the child process has returned from the fiber.
[[noreturn]] WEFT_NOINLINE WEFT_COLD void FailForkedFiber() {
  CheckNotForkedChild("the end of a fiber");
  WEFT_UNREACHABLE();
}

}  // namespace

void Worker::FiberMain(context::ThreadState* here) {
  Worker* worker = Of(here);
  FiberEntity* self = worker->current;  // First, while nothing has changed it (W2).
  worker->FinishSwitch();
  for (;;) {
    context::BeginFloatingPoint(*worker);
    self->Run();
    if (self->cancel_word.scoped()) self->LeaveAllScopes();  // What ends the fiber's locals is not cancelled.
    if (self->fiber_local_slots() != nullptr) fiber_hooks.destroy_fiber_locals(self);
    if (self->execution_context() != nullptr) fiber_hooks.release_execution_context(self);

    worker = static_cast<Worker*>(CurrentWorker());  // W3
    if (worker == nullptr) [[unlikely]] {
      FailForkedFiber();
    }
    FiberEntity* next = worker->NextFiberAfter(self);
    if (next != nullptr && !next->has_stack() && !next->wants_own_stack() && !self->has_custom_stack()) {
      worker->TakeOverStack(self, next);
      worker->counters().CountFinished();  // Before: LS1 in slice_limits.h.
      worker->current = next;
      worker->Retire(self);
      self = next;
      continue;
    }
    if (next != nullptr && !worker->PrepareToEnter(next)) {
      next = worker->FindFiber();
      worker->RecordEntry(next);  // Another one than it had recorded.
    }
    worker->left_ = self;
    worker->switch_reason_ = SwitchReason::kEnded;
    WorkerCounters::Add(worker->counters().switches);  // Before: LS1 in slice_limits.h.
    worker->current = next;
    context::LeaveContext(&self->context, next != nullptr ? &next->context : &worker->loop_, worker);
  }
}

void Worker::TakeOverStack(FiberEntity* from, FiberEntity* to) {
  to->state_.OnAcquired();
  if (to->ready_stamp) [[unlikely]] {
    group->RecordReadyWait(index, to);
  }
  to->stack_top_ = from->stack_top_;
  to->context = from->context;  // It carries what a sanitizer knows of the stack.
  WorkerCounters::Add(counters().begun);
}

void Worker::GiveStackBack(FiberEntity* fiber) {
  context::DestroyContext(&fiber->context);
  if (!fiber->has_custom_stack()) [[likely]] {
    stacks_.Push(fiber->stack_top_);
  } else {
    // The pool may be another group's, whose fibers wait for its stacks.
    auto* const owner = static_cast<SchedulingGroup*>(fiber->custom_stack_pool_->owner());
    if (owner->group_stacks().record_every() != 0 && fiber->custom_stack_pool_ == &owner->stacks()) [[unlikely]] {
      owner->group_stacks().Measure(fiber->stack_top_);
    }
    fiber->custom_stack_pool_->Release(fiber->stack_top_);
    owner->StackGivenBack();
  }
  group->StackGivenBack();
}

// The fiber has ended, has been counted, and has no stack any more.
void Worker::Retire(FiberEntity* fiber) {
  if (slice_.has_limits()) [[unlikely]] {
    SliceLimits::AwaitReader();  // LS1
  }
  fiber->stack_top_ = nullptr;
  FiberOwner* const owner = fiber->flags_ == 0 ? nullptr : fiber->TakeOwner();
  fiber->state_.OnExited();
  EntityPool::GiveBack(fiber);
  if (owner == nullptr) return;
  must_not_switch = true;
  owner->on_exit(owner);
  must_not_switch = false;
}

}  // namespace weft::scheduling_group
