// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a worker does without a fiber: it spins, steals and sleeps, as idle_loop.h says.

#include <algorithm>
#include <chrono>

#include "weft/base/time/test_time.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/worker/worker.h"

namespace weft::scheduling_group {
namespace {

using Clock = std::chrono::steady_clock;

// How often idle workers retry fibers that found no stack, if no fiber ends meanwhile.
constexpr std::chrono::milliseconds kRetryStackEvery{10};

// The longest sleep of a worker that may have overlooked stealable fibers behind group-local ones of another group
// (RS3). Fibers made ready later wake it; those that it overlooked wait for so long at most.
constexpr std::chrono::milliseconds kBriefly{1};

// Returns the time at its end.
Clock::time_point PauseBetweenSearches(std::chrono::nanoseconds at_least) noexcept {
  const auto until = at_least.count() != 0 ? Clock::now() + at_least : Clock::time_point::min();
  for (;;) {
    for (int i = SpinPolicy::kPausesPerSearch; i > 0; --i) base::CpuRelax();
    if (const auto now = Clock::now(); now >= until) return now;
  }
}

}  // namespace

// The Worker of idle_loop.h.
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
  Fiber* Spin() { return worker_.Spin(); }
  bool HasWork() const { return group().policy().HasWork(); }
  void Notify() { group().Notify(); }
  Fiber* StealNowAndThen() { return worker_.StealFromOtherGroups(); }
  Fiber* StealFrom(Group& victim) { return worker_.StealFromGroup(&victim); }
  // Half, because the size is an estimate that may be too small by the number of pushes under way.
  bool MaySeeLess(const Group& victim) const { return victim.policy().Size() > GlobalQueue::kMostTries / 2; }
  void NothingFound() {
    TellDrainWaiter();
    WorkerCounters::Add(worker_.counters().sleeps);
  }
  Group* TakeOrder() { return TakeOrderFrom(worker_slot_.sent_to); }
  void Park() { worker_slot_.parker.Park(); }
  SpinPolicy& spin_policy() { return worker_.spin_policy_; }
  void SearchAgainAfter(std::chrono::nanoseconds nap) {
    if (nap.count() != 0) {
      worker_slot_.parker.Nap(Clock::now() + nap);
    } else {
      base::CpuRelax();
    }
  }

  Order<Group> Sleep(bool briefly) {
    group().CallIdleHook();
    const SliceMonitor::MonitoredWorker::Asleep asleep(&worker_.slice_);
    if (group().HasFibersWithoutStack()) {
      SleepUntilRetry();
    } else if (briefly) {
      (void)worker_slot_.parker.ParkUntil(Clock::now() + kBriefly);
    } else if (IdlePoller* poller = group().idle_poller(); poller != nullptr && poller->TryEnter()) {
      return SleepInPoll(poller);
    } else {
      const base::RestsInTestTime rests;
      worker_slot_.parker.Park();
    }
    return CountedGetUp();
  }

 private:
  Order<Group> CountedGetUp() {
    context::CheckOverflowHandlerNowAndThen();
    const Order<Group> order = GetUp(*this);
    if (order.counted_as_spinner || order.steal_from != nullptr) WorkerCounters::Add(worker_.counters().wakes);
    return order;
  }

  void SleepUntilRetry() {
    worker_.stacks_.Clear();  // Other workers may need them.
    {
      const base::RestsInTestTime rests;  // Those that have stacks may sleep.
      (void)worker_slot_.parker.ParkUntil(worker_.retry_stack_at_);
    }
    const auto now = Clock::now();
    if (now >= worker_.retry_stack_at_) {
      worker_.retry_stack_at_ = now + kRetryStackEvery;
      group().StackGivenBack();
    }
  }

  Order<Group> SleepInPoll(IdlePoller* poller) {
    IdleWorkers& idle = group().idle();
    idle.SetInPoll(index(), true);
    if (worker_slot_.parker.BeginWaitElsewhere()) {
      {
        const base::RestsInTestTime rests;
        poller->Wait();
      }
      (void)worker_slot_.parker.EndWaitElsewhere();
    }
    idle.SetInPoll(index(), false);
    Order<Group> order = CountedGetUp();
    // The worker counts as a spinner during the dispatch, so that its pushes wake no worker. It takes the first fiber,
    // and wakes another worker if more are left.
    if (!order.counted_as_spinner) order.counted_as_spinner = idle.TryStartSpinning();
    poller->LeaveAfterDispatch();
    return order;
  }

  scheduling_group::Worker& worker_;
  SchedulingGroup::WorkerSlot& worker_slot_;
};

FiberEntity* Worker::NextFiber() {
  if (stealing_ && !group->stopping()) {  // W4: it may be one that cannot be left behind any more (WL1).
    // The last fiber was stolen, and its group likely has more. Spinning first would cost a fifth of the time where
    // fibers run for 25 us (bench/fiber/work_conservation_benchmark.cc).
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr && !group->policy().HasWork()) fiber = StealFromOtherGroups();
    if (fiber != nullptr) return fiber;
  }
  IdleSide side(this);
  return NextFiberWhenIdle(side);
}

FiberEntity* Worker::Spin() {
  WorkerCounters::Add(counters().spins);
  // A worker woken for a fiber finds it at once, before the first reading of the clock.
  if (FiberEntity* fiber = FindFiber()) return fiber;
  spin_memory_.Forget();
  spin_policy_.BeginSpin(group->options().spin_for);
  FiberEntity* fiber = SpinForFiber();
  spin_policy_.EndSpin(fiber != nullptr);
  return fiber;
}

// nullptr: nothing was found.
FiberEntity* Worker::SpinForFiber() {
  IdlePoller* poller = group->idle_poller();
  while (!group->stopping()) {
    FiberEntity* fiber = FindFiber();
    if (fiber == nullptr) fiber = PopFromBusyWorkers();
    if (fiber != nullptr) return fiber;
    if (poller != nullptr) poller->TryPoll();
    // Only a long spin sees two samples of a busy worker's slot (HS2).
    const bool hand_offs = spin_memory_.active;
    if (!spin_policy_.GoesOn(hand_offs, [this] { return group->policy().HasWork(); })) break;
    const auto now = PauseBetweenSearches(SpinPolicy::PauseTime(hand_offs));
    if (spin_policy_.IsOver(now, hand_offs, [this] { return group->idle().spinners() == 1; })) break;
  }
  return nullptr;
}

FiberEntity* Worker::PopFromBusyWorkers() {
  FiberEntity* fiber = group->policy().PopFromBusyWorkers(index, &spin_memory_);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(counters().peer_takes);
  return PrepareToEnter(fiber) ? fiber : nullptr;
}

FiberEntity* Worker::StealFromOtherGroups() {
  const auto& neighbours = group->neighbours();
  WorkerCounters::Add(counters().idle_searches);
  for (std::size_t i = 0; i < neighbours.all.size(); ++i) {
    if (neighbours.all[i].steal_every_n == 0 || idle_searches() < next_steal_search_[i]) continue;
    FiberEntity* fiber = StealFrom(i);
    if (fiber == nullptr) continue;
    // No fiber needs this request (RS4). It wakes a worker that sleeps briefly because of MaySeeLess().
    RequestSteal(*neighbours.all[i].group);
    return fiber;
  }
  stealing_ = false;
  return nullptr;
}

// Steals at once, whatever the rate. nullptr also if this group may not steal from `victim`.
FiberEntity* Worker::StealFromGroup(SchedulingGroup* victim) {
  const auto& all = group->neighbours().all;
  const auto found =
      std::find_if(all.begin(), all.end(), [victim](const auto& other) { return other.group == victim; });
  if (found == all.end() || found->steal_every_n == 0) return nullptr;
  return StealFrom(static_cast<std::size_t>(found - all.begin()));
}

FiberEntity* Worker::StealFrom(std::size_t neighbour) {
  const auto& neighbours = group->neighbours();
  const auto [victim, every_n, distance] = neighbours.all[neighbour];
  StealCounters& counters = neighbours.counters(index, neighbour);
  WorkerCounters::Add(counters.attempts);
  FiberEntity* fiber = victim->PopForSteal(distance);
  // After a success the next search tries again, until nothing waits there.
  next_steal_search_[neighbour] = idle_searches() + (fiber != nullptr ? 1 : every_n);
  if (fiber == nullptr) return nullptr;
  WorkerCounters::Add(counters.stolen_in);
  if (fiber->ready_stamp) [[unlikely]] {
    group->RecordStolenWait(index, fiber);
  }
  // Its stack goes back to the pool that it came from.
  if (fiber->has_stack() && !fiber->has_custom_stack()) fiber->set_custom_stack_pool(&victim->stacks());
  fiber->set_group(group);
  if (!PrepareToEnter(fiber)) return nullptr;
  stealing_ = true;
  return fiber;
}

}  // namespace weft::scheduling_group
