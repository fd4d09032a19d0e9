// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StartWhenFull: how a start goes on that finds the group's bounded queue full. It depends on the caller:
//
//   a fiber of the group        the new fiber runs at once on the caller's worker; the caller goes on when that one
//                               waits or ends. No worker is blocked, a fiber that starts millions goes on as fast as
//                               they are run, and a tree of fibers runs depth first (Worker::RunInstead)
//   a fiber of another group    yields until there is room, up to `start_timeout`
//   a plain thread              waits until the queue is half empty (StartGate), up to `start_timeout`
//   an on_exit hook, a timer's  may do none of that: the fiber goes to the unbounded overflow list (a timer that starts
//   callback on its thread,     a fiber of its own is refused, and fires again: CB4)
//   a fiber of a FiberLoop      (loop_groups.h: while it yields the group may end)
//
// StartGate: where plain threads wait while the run queue is full (SG3 in scheduling_group.h), and are refused when the
// runtime ends.
//
//   spawner                              worker, after each pop            the thread that ends the runtime
//   -------                              ------------------------          --------------------------------
//   counts itself in `waiting_`          if one waits and the queue is     refuses
//   reads the epoch, clears `told_`      half empty: sets `told_`, and     a new epoch, wakes all
//   full fence                           if it was not set: a new epoch,
//   checks: refused? full?               wakes all
//   sleeps while the epoch is the same
//
// Invariants
//   SF1  True: the fiber runs, or was pushed and a worker was notified. False: it is still the caller's.
//   SF2  A fiber's batch is never refused for want of room. The fiber yields once, which slows it down to the pace at
//        which fibers run. (A wait for room might never end where many fibers wait so.)
//   GA1  A spawner reads the epoch before each check, and its sleep compares it. Capacity freed or a refusal after the
//        check makes a new epoch, which keeps the spawner awake or wakes it.
//   GA2  Pops that race with the last check may not see the spawner in `waiting_`; later ones do. There are enough of
//        them: the queue has at least 16 slots, half of it is popped before it is half empty, and half after that.
//   GA3  The first such pop wakes all spawners and sets `told_`, so the others need not. A spawner clears `told_`
//        before its last check, by an exchange: if a pop had set it, the check sees what was popped.
//
// Checked in tests/model/start_gate_model.cc.
// A Group is SchedulingGroup, or that of tests/scheduling_group/start_when_full_test.cc.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_

#include <cstdint>
#include <limits>

#include "weft/base/deadline.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

// WaitForCapacity(): plain threads. CapacityFreed(): workers. Refuse(), Open(): when the runtime ends, and starts.
class StartGate {
 public:
  // relaxed: a start that races with Refuse() may come before or after it.
  bool refusing() const noexcept { return refusing_.load(std::memory_order_relaxed); }

  // Waits while full(). False: refused, or the deadline passed, by the steady clock: a test clock stands still then.
  template <class Full>
  [[nodiscard]] bool WaitForCapacity(Deadline deadline, Full full) noexcept {
    bool has_capacity = false;
    waiting_.fetch_add(1, std::memory_order_seq_cst);  // GA2: before the check in the loop.
    for (;;) {
      // acquire: an epoch that changes after this load makes FutexWait() return. Pairs with LetAllGoOn().
      const std::uint32_t epoch = epoch_.load(std::memory_order_acquire);
      // An exchange: if a pop has set it, we see what that popped (GA3). Both orders pair with LetGoOn().
      (void)told_.exchange(false, std::memory_order_acq_rel);
      base::ThreadFence(std::memory_order_seq_cst);  // We count ourselves, then check (GA2).
      if (refusing()) break;
      if (!full()) {
        has_capacity = true;
        break;
      }
      if (deadline.expired(std::chrono::steady_clock::now())) break;
      const auto until = deadline.time_point();
      (void)base::FutexWait(&epoch_, epoch, deadline.is_none() ? nullptr : &until);  // Then we check again.
    }
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return has_capacity;
  }

  // After a pop. Calls half_empty() only while a spawner waits.
  template <class HalfEmpty>
  WEFT_ALWAYS_INLINE void CapacityFreed(HalfEmpty half_empty) noexcept {
    // relaxed: pops may miss the spawner for a while (GA2).
    if (waiting_.load(std::memory_order_relaxed) != 0) [[unlikely]] {
      LetGoOn(half_empty);
    }
  }

  void Refuse() noexcept {
    refusing_.store(true, std::memory_order_relaxed);  // The epoch carries it.
    LetAllGoOn();
  }
  // The release that publishes the group carries it.
  void Open() noexcept { refusing_.store(false, std::memory_order_relaxed); }

 private:
  template <class HalfEmpty>
  WEFT_NOINLINE WEFT_COLD void LetGoOn(HalfEmpty half_empty) noexcept {
    if (!half_empty() || told_.load(std::memory_order_relaxed)) return;  // relaxed: as in CapacityFreed().
    if (!told_.exchange(true, std::memory_order_acq_rel)) LetAllGoOn();
  }
  void LetAllGoOn() noexcept {
    epoch_.fetch_add(1, std::memory_order_release);  // Pairs with the acquire in WaitForCapacity().
    base::FutexWake(&epoch_, std::numeric_limits<int>::max());
  }

  base::Atomic<bool> refusing_{false};
  base::Atomic<bool> told_{false};  // spawners were woken for capacity, and none has waited again since
  base::Atomic<std::uint32_t> waiting_{0};
  base::Atomic<std::uint32_t> epoch_{0};  // futex word
};

// By the steady clock, which a test clock leaves alone.
template <class Group>
Deadline StartDeadline(const Group& group) {
  return Deadline::After(group.options().start_timeout, std::chrono::steady_clock::now());
}

template <class Group>
void ReportRefusedStart(Group& group) {
  group.CountRefusedStart();
  WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", group.Label(), ": refused to start a fiber, the run queue of ",
                        group.options().run_queue_size, " was full for ",
                        group.options().start_timeout.count() / 1000000,
                        " ms; start less (weft/fiber/fiber_limiter.h), or allow more by --fiber_run_queue_size");
}

template <class Group>
bool StartWhenFull(Group& group, FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  const bool is_of_group = WorkerOf(caller, &group) != SchedulingPolicy::kNoWorker;
  const bool may_wait = caller != nullptr ? !caller->must_not_switch && !caller->of_loop : ThreadMayWait();
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
      if (deadline.expired(std::chrono::steady_clock::now())) ReportRefusedStart(group);  // Else the runtime ends.
      return false;
    }
    group.RestartWait(fiber);
    if (group.policy().TryPushNew(fiber, WorkerOf(caller, &group))) break;
    if (deadline.expired(std::chrono::steady_clock::now())) {
      ReportRefusedStart(group);
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
  if (caller == nullptr) {
    if (!ThreadMayWait()) return true;
    const Deadline deadline = StartDeadline(group);
    if (group.WaitForCapacity(deadline)) return true;
    if (deadline.expired(std::chrono::steady_clock::now())) ReportRefusedStart(group);  // As above.
    return false;
  }
  if (caller->current != nullptr && !caller->must_not_switch && !caller->of_loop) caller->yield_current(caller);  // SF2
  return true;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_START_WHEN_FULL_H_
