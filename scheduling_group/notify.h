// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// How a fiber that was made ready gets a worker: a sleeping one of its own group is woken, unless another one searches
// already (idle_workers.h); if all of them are busy, a steal is requested by another group (steal_request.h).
//
// Invariants
//   NO1  After a push, NotifyAfterPush(); or a full fence and NotifyAfterFence(): the push is seen by a worker of the
//        group that searches, or one is woken (IW1), or RS1 holds.
//   NO2  For a group-local fiber no steal is requested, as other groups may not have it; but for what its push had
//        hidden from them (SchedulingPolicy::MustNotify()).
//
// Any thread. A Group is as in steal_request.h. SchedulingGroup, and that of tests/model/idle_loop_model.cc.
#ifndef WEFT_SCHEDULING_GROUP_NOTIFY_H_
#define WEFT_SCHEDULING_GROUP_NOTIFY_H_

#include "weft/base/cpu.h"
#include "weft/scheduling_group/idle_groups.h"
#include "weft/scheduling_group/idle_workers.h"
#include "weft/scheduling_group/spin_policy.h"
#include "weft/scheduling_group/steal_request.h"

namespace weft::scheduling_group {

// Between a push with a full fence, by a plain thread, and NotifyAfterFence(). To wake a worker costs the thread a
// system call, and where CPUs are scarce its CPU too, which the kernel gives to the worker at once. If another worker
// is up it may come first: it ends a short fiber, takes the new one, and spins. workers: how many the group has.
inline void PauseBeforeWake(const IdleWorkers& idle, unsigned workers) noexcept {
  for (int i = SpinPolicy::kPausesBeforeWake; i > 0; --i) {
    if (idle.NobodyToWakeAfterFence() || idle.sleepers().Count() == workers) return;
    base::CpuRelax();
  }
}

// False: somebody searches already, or nobody sleeps.
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

// After a fence as in RequestSteal(), whose first check this is, without a call.
template <class Group>
WEFT_ALWAYS_INLINE bool APartnerMayIdle(Group& group) noexcept {
  return group.idle_groups().MayIdle(group.partner_mask());
}

// local: only this group may run the fiber. must_notify(): asked if it is.
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

#endif  // WEFT_SCHEDULING_GROUP_NOTIFY_H_
