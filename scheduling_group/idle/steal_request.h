// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Steal requests: how a group whose workers are all busy wakes a sleeping worker of a partner (neighbour_list.h). The
// busy group asks; an idle group learns of work only so, and by its workers' own searches (SG5, RS3).
//
//   RequestSteal(loaded)          claims the nearest sleeper, tells it `loaded`, wakes it
//   ServeStealRequest(loaded)     that worker, first thing: steals a fiber there; if more wait, requests another steal
//   ForwardStealRequest(loaded)   a worker that was sent but has other work: sends another worker
//
// One worker at a time is on its way to a group (`steal_requested`), like a spinner within a group. Producers rely on
// it meanwhile, so a burst wakes one worker after the other.
//
// Invariants
//   RS1  After a stealable fiber was made ready, a full fence and RequestSteal(), one of these holds: the worker on its
//        way sees the fiber when it steals; a worker going to sleep sees it in its last search; a sleeper is claimed
//        for it; no worker of a partner sleeps; or a worker of the fiber's own group searches (IW1).
//   RS2  A thread that sets steal_requested then claims a sleeper, or clears the flag again. The worker that was sent
//        clears it before it steals. After clearing it, a thread fences and searches, for producers that relied on it.
//   RS3  After announcing its sleep, a worker steals from each partner in which no worker searches, and finds what was
//        made ready before the fence. HasStealable() only spares a steal in vain; group-local fibers make it true.
//   RS4  A worker that was sent and has stolen a fiber requests another steal if more wait, so all sleepers are reached
//        without further pushes. (Other thieves do so, too; they need not.)
//
// A Group, SchedulingGroup or that of tests/model/idle_loop_model.cc, has idle(), its IdleWorkers; idle_groups();
// slot(); partners(), nearest first; partner_mask(); steal_requested(); HasStealable(); MayStealFrom(loaded), true if
// `loaded` is a group that it steals from and does not outlive; Send(worker, loaded), which unparks with the request.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_STEAL_REQUEST_H_
#define WEFT_SCHEDULING_GROUP_IDLE_STEAL_REQUEST_H_

#include "weft/base/thread/atomic.h"
#include "weft/scheduling_group/idle/idle_groups.h"
#include "weft/scheduling_group/idle/idle_workers.h"

namespace weft::scheduling_group {

// A worker of the group is idle; it or IW1 takes care of the fiber.
template <class Group>
bool SomebodyIdles(Group& group) noexcept {
  return group.idle().spinners() != 0 || !group.idle().sleepers().Empty();
}

// A worker of a partner has announced its sleep. (The others' last search is still to come.)
template <class Group>
bool APartnerSleeps(Group& group) noexcept {
  for (Group* partner : group.partners()) {
    if (group.idle_groups().MayIdle(partner->slot()) && !partner->idle().sleepers().Empty() &&
        partner->MayStealFrom(group)) {
      return true;
    }
  }
  return false;
}

// The part of RequestSteal() after the caller's fence. False: no worker sleeps.
template <class Group>
bool SendNearestSleeper(Group& loaded) {
  for (Group* partner : loaded.partners()) {
    if (!loaded.idle_groups().MayIdle(partner->slot())) continue;
    if (!partner->idle().sleepers().Empty() && !partner->MayStealFrom(loaded)) continue;
    const int worker = partner->idle().ClaimSleeper();
    if (worker != IdleWorkers::kNobody) {
      partner->Send(static_cast<unsigned>(worker), &loaded);
      return true;
    }
    loaded.idle_groups().Retract(partner->slot(), [&] { return !partner->idle().sleepers().Empty(); });
  }
  return false;
}

// Any thread, after making a stealable fiber ready in `loaded`, and a full fence.
template <class Group>
void RequestSteal(Group& loaded) {
  if (SomebodyIdles(loaded) || !loaded.idle_groups().MayIdle(loaded.partner_mask())) return;
  do {
    // relaxed, all: the fences order them. The load first: a producer that relies on another takes no line.
    if (loaded.steal_requested().load(std::memory_order_relaxed)) return;
    if (!loaded.HasStealable()) return;  // For example, the fiber is in a hand-off slot.
    if (loaded.steal_requested().exchange(true, std::memory_order_relaxed)) return;
    if (SendNearestSleeper(loaded)) return;
    loaded.steal_requested().store(false, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  } while (!SomebodyIdles(loaded) && APartnerSleeps(loaded));
}

// By the worker that was sent. steal(): from `loaded`.
template <class Group, class Steal>
auto ServeStealRequest(Group& loaded, Steal steal) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  auto fiber = steal();
  if (fiber != nullptr) RequestSteal(loaded);  // RS4
  return fiber;
}

template <class Group>
void ForwardStealRequest(Group& loaded) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  RequestSteal(loaded);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_STEAL_REQUEST_H_
