// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The worker of a driven group: what its driver calls instead of Worker::Run().

#include <chrono>
#include <utility>

#include "weft/base/test_time.h"
#include "weft/scheduling_group/drain.h"
#include "weft/scheduling_group/idle_loop.h"
#include "weft/scheduling_group/policy_loop.h"
#include "weft/scheduling_group/worker.h"

namespace weft::scheduling_group {

void Worker::BeginDriving() {
  WEFT_DCHECK(is_driven && CurrentWorker() == nullptr, "Worker::BeginDriving: the thread is a worker");
  SetCurrentWorker(this);
  not_driven_.reset();
}

void Worker::EndDriving() {
  not_driven_.emplace(&slice_);
  SetCurrentWorker(nullptr);
}

bool Worker::RunNext() {
  FiberEntity* fiber = FindFiber();
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
  SwitchTo(nullptr, SwitchReason::kNothing, fiber);
  while (loop_call_ != nullptr) ServeLoopCall();
}

void Worker::ServeLoopCall() {
  const LoopCall call = *std::exchange(loop_call_, nullptr);
  call.call(call.argument);  // It may enter fibers itself, here.
  call.caller->state_.OnTaken();
  if (PrepareToEnter(call.caller)) SwitchTo(nullptr, SwitchReason::kNothing, call.caller);
}

void Worker::CallOnLoop(FiberEntity* self, void (*call)(void* argument), void* argument) {
  if (group->needs_attention()) BeforeLeaving(self);
  LoopCall loop_call{.caller = self, .call = call, .argument = argument};
  loop_call_ = &loop_call;
  publish_ = [](void*) noexcept { return true; };  // To nobody: the loop takes it back.
  publish_argument_ = nullptr;
  SwitchTo(self, SwitchReason::kPublished, nullptr);
}

bool Worker::AnnounceSleep() {
  group->CallIdleHook();
  TellDrainWaiter();
  IdleWorkers& idle = group->idle();
  idle.PrepareSleep(index);
  if (!group->policy().HasWork()) {
    WorkerCounters::Add(counters().sleeps);
    return true;
  }
  GetUpDriven();
  return false;
}

void Worker::SleepUntil(std::chrono::steady_clock::time_point until) {
  SchedulingGroup::WorkerSlot& slot = group->worker_slot(index);
  {
    const SliceMonitor::MonitoredWorker::Asleep asleep(&slice_);
    if (base::HasTestTime()) {
      (void)base::ParkInTestTime(&slot.parker, until, base::Waits::kRunner);
    } else if (until == std::chrono::steady_clock::time_point::max()) {
      slot.parker.Park();
    } else {
      (void)slot.parker.ParkUntil(until);
    }
  }
  GetUpDriven();
}

bool Worker::SleepElsewhere() {
  elsewhere_ = group->worker_slot(index).parker.BeginWaitElsewhere();
  if (!elsewhere_) GetUpDriven();
  return elsewhere_;
}

void Worker::WakeUp() {
  if (std::exchange(elsewhere_, false)) (void)group->worker_slot(index).parker.EndWaitElsewhere();
  GetUpDriven();
}

// As GetUp() in idle_loop.h; there is one kind of order.
void Worker::GetUpDriven() {
  if (group->idle().CancelSleep(index)) return;
  SchedulingGroup::WorkerSlot& slot = group->worker_slot(index);
  while (TakeOrderFrom(slot.sent_to) == nullptr) slot.parker.Park();  // Claimed: it is on its way.
  WorkerCounters::Add(counters().wakes);
  group->idle().StopSpinning();  // The claim has counted it; the caller looks for fibers (IW4).
}

}  // namespace weft::scheduling_group
