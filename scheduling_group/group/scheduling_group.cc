// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/scheduling_group.h"

#include <chrono>
#include <new>

#include "weft/base/report/log.h"
#include "weft/scheduling_group/queue/start_when_full.h"

namespace weft::scheduling_group {

bool SchedulingGroup::Start(FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  if (RefusesStartOf(caller)) [[unlikely]] {
    return false;
  }
  SamplePush(caller, fiber);
  const bool local = fiber->group_local();  // After the push it is another's.
  const int worker = WorkerOf(caller, this);
  if (parts_->policy.TryPushNewAndFence(fiber, worker)) [[likely]] {
    if (caller == nullptr) PauseBeforeWake(idle_, size());
    NotifyAfterFence(local, worker);
    return true;
  }
  return StartWhenFull(*this, fiber);
}

bool SchedulingGroup::StartBatch(FiberEntity* const* fibers, std::size_t count) {
  if (RefusesStartOf(CurrentWorker())) return false;
  if (policy().Full() && !WaitBeforeBatch(*this)) return false;
  // The batch is accepted as a whole: fibers beyond the ring's capacity wait in the overflow list.
  ReadyBatch(fibers, count, ReadyReason::kStarted);
  return true;
}

void SchedulingGroup::Ready(FiberEntity* fiber, ReadyReason reason) {
  WorkerBase* caller = CurrentWorker();
  ReadyBy(caller, WorkerOf(caller, this), fiber, reason);
}

void SchedulingGroup::ReadyBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason) {
  WorkerBase* caller = CurrentWorker();
  PushCountdownOf(caller).CountEach(count, [=, this](std::size_t i) { StampFiber(caller, fibers[i]); });
  policy().PushBatch(fibers, count, reason, WorkerOf(caller, this));
  Notify();
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::StampFiber(WorkerBase* caller, FiberEntity* fiber) noexcept {
  PushSampler& sampler =
      caller != nullptr ? caller->group->worker_slot(caller->index).push_sampler : ThisThreadsPushSampler().sampler;
  parts_->ready_waits.Stamp(fiber, sampler, &PushCountdownOf(caller));
}

// The poll comes first, so that the pop can bring what it made ready.
WEFT_NOINLINE FiberEntity* SchedulingGroup::PollAndPop(unsigned worker) {
  if (driven()) {  // Its driver polls, and looks after the timers, on its own stack: back to it.
    worker_slot(worker).poll_pace.OnPoll(std::chrono::steady_clock::now());
    return nullptr;
  }
  worker_slot(worker).poll_pace.Poll(idle_poller());
  return PopNow(worker);
}

FiberEntity* SchedulingGroup::PopForSteal(int distance) {
  if (stopping()) return nullptr;
  bool must_notify = false;
  FiberEntity* fiber = policy().Steal(&must_notify);
  // No steal request: it would send thieves after fibers that are group-local.
  if (must_notify && !idle_.NobodyToWake()) (void)WakeSleeper(*this);
  CapacityFreed();
  if (fiber != nullptr) stolen_out_[distance == kSameNode].fetch_add(1, std::memory_order_relaxed);
  return fiber;
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::EndWaitElsewhere() {
  if (driver_hook_.wake != nullptr) {
    driver_hook_.wake(driver_hook_.arg);
  } else {
    idle_poller()->Interrupt();
  }
}

// By a worker that found nothing ready in the group and is about to sleep.
void SchedulingGroup::CallIdleHook() {
  if (WorkerBase* worker = CurrentWorker()) {
    worker_slot(worker->index).push_sampler.Forget(&worker->push_countdown);
  }
  parts_->ready_waits.OnNothingReady();
  if (idle_hook_.call != nullptr) idle_hook_.call(idle_hook_.arg);
}

WEFT_COLD void SchedulingGroup::AddWithoutStack(FiberEntity* fiber) {
  const auto fiber_id = fiber->id();  // Once in the list it is no longer ours.
  stack_waiters_.Add(fiber);
  // Sleeping workers may have stacks in their caches, and sleep without a limit.
  const int caller = WorkerOf(CurrentWorker(), this);
  for (unsigned w = 0; w < size(); ++w) {
    if (static_cast<int>(w) != caller) Unpark(w);
  }
  try {
    WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", id(), ": no stack for fiber ", fiber_id,
                          ", it waits until another fiber ends (what there is not enough of, the stack pool says)");
  } catch (const std::bad_alloc&) {
    // No memory for the line either.
  }
}

}  // namespace weft::scheduling_group
