// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/worker.h"

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
    GiveUpTimers();
    CheckOverflowHandlerAtTimes();
    RecordEntry(fiber);
    SwitchTo(nullptr, SwitchReason::kNothing, fiber);
  }
  GiveUpTimers();
  Recorder::Retire(this);
  const bool in_time = life.BeginEnd();
  stacks_.Clear();
  SetCurrentWorker(nullptr);
  context::DestroyContext(&loop_);
  return in_time;
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
