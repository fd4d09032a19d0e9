// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a fiber that was made ready gets a worker. Unless a worker of its group searches already, a sleeping one is woken
// (idle_workers.h). If all of them are busy, another group is asked to steal (steal_request.h).
//
// Invariants
//   NO1  After a push and NotifyAfterPush(), or a push, a full fence and NotifyAfterFence(), a searching worker of the
//        group sees the fiber, or one is woken (IW1), or RS1 holds.
//   NO2  A group-local fiber requests no steal, since other groups may not run it, unless its push had hidden other
//        fibers from them (SchedulingPolicy::MustNotify()).
//
// Any thread. A Group is as in steal_request.h. SchedulingGroup, and that of tests/model/idle_loop_model.cc.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_NOTIFY_H_
#define WEFT_SCHEDULING_GROUP_IDLE_NOTIFY_H_

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/idle/idle_groups.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/spin_policy.h"
#include "weft/scheduling_group/idle/steal_request.h"

namespace weft::scheduling_group {

// A plain thread, between a push with a full fence and NotifyAfterFence(). A wake-up costs the thread a system call
// and, where CPUs are scarce, its CPU, which the kernel gives to the worker. If another worker is up it may come first:
// it ends a short fiber, takes the new one, and spins. workers: how many the group has.
inline void PauseBeforeWake(const IdleWorkers& idle, unsigned workers) noexcept {
  for (int i = SpinPolicy::kPausesBeforeWake; i > 0; --i) {
    if (idle.NobodyToWakeAfterFence() || idle.sleepers().Count() == workers) return;
    base::CpuRelax();
  }
}

// False: a worker searches already, or none sleeps.
template <class Group>
WEFT_NOINLINE bool WakeSleeper(Group& group) {
  const int worker = group.idle().ClaimWorkerToWake();
  if (worker == IdleWorkers::kNobody) return false;
  group.Send(static_cast<unsigned>(worker), &group);
  return true;
}

template <class Group>
WEFT_NOINLINE void RequestStealByPartners(Group& group) {
  RequestSteal(group);
}

// After a fence: the first check of RequestSteal(), without a call.
template <class Group>
WEFT_ALWAYS_INLINE bool APartnerMayIdle(Group& group) noexcept {
  return group.idle_groups().MayIdle(group.partner_mask());
}

// local: only this group may run the fiber; must_notify() is called only then.
template <class Group, class MustNotify>
WEFT_ALWAYS_INLINE void NotifyAfterFence(Group& group, bool local, MustNotify must_notify) {
  if (!group.idle().NobodyToWakeAfterFence()) [[unlikely]] {
    if (WakeSleeper(group)) return;
  }
  if (APartnerMayIdle(group) && (!local || must_notify())) RequestStealByPartners(group);  // NO2
}

template <class Group>
void NotifyAfterPush(Group& group) {
  if (!group.idle().NobodyToWake() && WakeSleeper(group)) return;
  if (APartnerMayIdle(group)) RequestStealByPartners(group);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_NOTIFY_H_
