// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StartWhenFull: how a start goes on that finds the group's bounded queue full. It depends on the caller:
//
//   a fiber of the group        the new fiber runs at once on the caller's worker; the caller goes on when that one
//                               waits or ends. No worker is blocked, a fiber that starts millions goes on as fast as
//                               they are run, and a tree of fibers runs depth first (Worker::RunInstead)
//   a fiber of another group    yields until there is room, up to `start_timeout`
//   a plain thread              waits until the queue is half empty (start_gate.h), up to `start_timeout`
//   an on_exit hook, a timer's  may do none of that: the fiber goes to the unbounded overflow list (a timer that starts
//   callback on its thread,     a fiber of its own is refused, and fires again: CB4)
//   a fiber of a FiberLoop      (driven_groups.h: while it yields the group may end)
//
// Invariants
//   SF1  True: the fiber runs, or was pushed and a worker was notified. False: it is still the caller's.
//   SF2  A fiber's batch is never refused for want of room. The fiber yields once, which slows it down to the pace at
//        which fibers run. (A wait for room might never end where many fibers wait so.)
//
// A Group is SchedulingGroup, or that of tests/scheduling_group/start_when_full_test.cc.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_

#include "weft/base/deadline.h"
#include "weft/base/report/log.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

// By the steady clock, which a test clock leaves alone.
template <class Group>
Deadline StartDeadline(const Group& group) {
  return Deadline::After(group.options().start_timeout, std::chrono::steady_clock::now());
}

template <class Group>
bool StartWhenFull(Group& group, FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  const bool is_of_group = WorkerOf(caller, &group) != SchedulingPolicy::kNoWorker;
  const bool may_wait = caller != nullptr ? !caller->must_not_switch && !caller->is_driven : ThreadMayWait();
  if (is_of_group && may_wait && caller->current != nullptr) {
    caller->run_instead_of_current(caller, fiber);
    return true;
  }
  if (is_of_group || !may_wait) {
    group.Ready(fiber, ReadyReason::kStarted);
    return true;
  }
  const Deadline deadline = StartDeadline(group);
  for (;;) {
    if (caller != nullptr && caller->current != nullptr) {
      caller->yield_current(caller);
      caller = CurrentWorker();  // It may have moved.
    } else if (!group.WaitForCapacity(deadline)) {
      return false;
    }
    group.RestartWait(fiber);
    if (group.policy().TryPushNew(fiber, WorkerOf(caller, &group))) break;
    if (deadline.expired(std::chrono::steady_clock::now())) {
      WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", group.id(), ": refused to start a fiber, the run queue of ",
                            group.options().run_queue_size, " was full for ",
                            group.options().start_timeout.count() / 1000000,
                            " ms; consider a larger --fiber_run_queue_size");
      return false;
    }
  }
  group.Notify();
  return true;
}

// Before the push of a batch. False: there is no room, and the batch is refused.
template <class Group>
[[nodiscard]] bool WaitBeforeBatch(Group& group) {
  WorkerBase* caller = CurrentWorker();
  if (caller == nullptr) return !ThreadMayWait() || group.WaitForCapacity(StartDeadline(group));
  if (caller->current != nullptr && !caller->must_not_switch && !caller->is_driven)
    caller->yield_current(caller);  // SF2
  return true;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_
