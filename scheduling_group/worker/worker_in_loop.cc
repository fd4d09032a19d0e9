// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The worker of a loop group: what its loop calls instead of Worker::Run().

#include <chrono>
#include <utility>

#include "weft/base/time/test_time.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/policy/policy_loop.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {

void Worker::BeginLoop() {
  outer_ = static_cast<Worker*>(CurrentWorker());
  WEFT_DCHECK(of_loop && (outer_ == nullptr || (outer_->of_loop && outer_->current == nullptr)),
              "Worker::BeginLoop: the thread is a worker");
  if (outer_ != nullptr) outer_->loop_is_out_.emplace(&outer_->slice_);
  SetCurrentWorker(this);
  loop_is_out_.reset();
}

void Worker::EndLoop() {
  loop_is_out_.emplace(&slice_);
  SetCurrentWorker(outer_);
  if (outer_ != nullptr) outer_->loop_is_out_.reset();
}

bool Worker::RunNext() {
  if (HasLoopCall()) {
    const LoopCall* const call = std::exchange(first_call_, first_call_->next);
    Serve(*call);
    ServeCalls();
    return true;
  }
  // Not PopFor(): the loop has just looked after timers and the poller. It would be sent back to that, without a
  // fiber, again and again where that takes longer than PollPace wants.
  auto& policy = static_cast<PolicyLoop&>(group->policy());
  bool must_notify = false;
  FiberEntity* fiber;
  do {
    fiber = policy.Pop(index, &must_notify);
  } while (fiber != nullptr && !PrepareToEnter(fiber));
  if (fiber == nullptr) return false;
  Enter(fiber);
  return true;
}

void Worker::RunEagerly(FiberEntity* fiber) {
  auto& policy = static_cast<PolicyLoop&>(group->policy());
  policy.CountStarted();
  if (!PrepareToEnter(fiber)) return;  // It waits for a stack.
  const PolicyLoop::Hold hold(policy);
  Enter(fiber);
}

// Returns when a fiber finds no other one to go on with.
void Worker::Enter(FiberEntity* fiber) {
  CheckOverflowHandlerAtTimes();
  RecordEntry(fiber);
  SwitchTo(nullptr, SwitchReason::kNothing, fiber);
  ServeCalls();
}

void Worker::ServeCalls() {
  while (LoopCall* const call = std::exchange(loop_call_, nullptr)) {
    if (!loop_call_waits_ || call->kind == LoopCallKind::kAtOnce) {
      Serve(*call);
    } else {
      (first_call_ == nullptr ? first_call_ : last_call_->next) = call;  // W5
      last_call_ = call;
    }
  }
}

void Worker::Serve(const LoopCall& call) {
  FiberEntity* const caller = call.caller;  // Its stack has the call.
  call.call(call.argument);                 // It may enter fibers itself, here.
  caller->state_.OnTaken();
  if (!PrepareToEnter(caller)) return;
  RecordEntry(caller);
  SwitchTo(nullptr, SwitchReason::kNothing, caller);
}

Worker::LoopCallWaits::LoopCallWaits(Worker* worker) noexcept
    : worker_(*worker),
      queue_(worker),
      main_context_(std::exchange(worker->main_context, nullptr)),
      released_(static_cast<PolicyLoop&>(worker->group->policy())) {}

Worker::LoopCallWaits::~LoopCallWaits() { worker_.main_context = main_context_; }

void Worker::CallOnLoop(FiberEntity* self, LoopCallKind kind, void (*call)(void* argument), void* argument) {
  if (group->needs_attention()) BeforeLeaving(self);
  LoopCall loop_call{.caller = self, .kind = kind, .call = call, .argument = argument};
  loop_call_ = &loop_call;
  publish_ = [](void*) noexcept { return true; };  // To nobody: the loop takes it back.
  publish_argument_ = nullptr;
  self->set_wait_reason({});
  if (group->needs_attention()) RecordSwitch(EventKind::kParked, self, nullptr);
  StampPark(self);
  SwitchTo(self, SwitchReason::kPublished, nullptr);
}

bool Worker::AnnounceSleep() {
  group->CallIdleHook();
  TellDrainWaiter();
  IdleWorkers& idle = group->idle();
  idle.PrepareSleep(index);
  if (!group->policy().HasWork() && !HasLoopCall()) {
    WorkerCounters::Add(counters().sleeps);
    return true;
  }
  GetUpInLoop();
  return false;
}

void Worker::SleepUntil(std::chrono::steady_clock::time_point until) {
  SchedulingGroup::WorkerSlot& slot = group->worker_slot(index);
  {
    const Watchdog::WatchedWorker::Asleep asleep(&slice_);
    if (base::HasTestTime()) {
      (void)base::ParkInTestTime(&slot.parker, until, base::Waits::kRunner);
    } else if (until == std::chrono::steady_clock::time_point::max()) {
      slot.parker.Park();
    } else {
      (void)slot.parker.ParkUntil(until);
    }
  }
  GetUpInLoop();
}

bool Worker::SleepElsewhere() {
  elsewhere_ = group->worker_slot(index).parker.BeginWaitElsewhere();
  if (!elsewhere_) GetUpInLoop();
  return elsewhere_;
}

void Worker::WakeUp() {
  if (std::exchange(elsewhere_, false)) (void)group->worker_slot(index).parker.EndWaitElsewhere();
  GetUpInLoop();
}

// As GetUp() in idle_loop.h; there is one kind of errand.
void Worker::GetUpInLoop() {
  if (group->idle().CancelSleep(index)) return;
  SchedulingGroup::WorkerSlot& slot = group->worker_slot(index);
  while (TakeErrandFrom(slot.sent_to) == nullptr) slot.parker.Park();  // Claimed: it is on its way.
  WorkerCounters::Add(counters().wakes);
  group->idle().StopSpinning();  // The claim has counted it; the caller looks for fibers (IW4).
}

}  // namespace weft::scheduling_group
