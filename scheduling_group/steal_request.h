// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Steal requests: a group whose workers are all busy gets a sleeping worker of another group.
//
//   RequestSteal(loaded)          claims the nearest sleeper, tells it `loaded`, wakes it
//   ServeStealRequest(loaded)     by that worker, first thing: steals a fiber there; if more wait, requests another
//   ForwardStealRequest(loaded)   by a worker that was sent but has other work: sends another worker
//
// One worker at a time is on its way for a group (`steal_requested`), like a spinner within a group. Producers
// meanwhile rely on it, so that a burst wakes one worker after the other.
//
// Invariants
//   RS1  After a stealable fiber was made ready, a full fence and RequestSteal(), one of these holds: the worker on its
//        way sees it by its steal; a worker that goes to sleep sees it by its last search; a sleeper is claimed for it;
//        no worker of a partner sleeps; or somebody in the fiber's own group searches (IW1).
//   RS2  A thread that sets steal_requested then claims a sleeper or clears it again. The worker that was sent clears
//        it before it steals. After clearing it a thread makes a full fence, then searches, for those who relied on it.
//   RS3  A worker's last search before it sleeps is a steal from each partner in which nobody searches, made after it
//        has announced itself. A steal finds what was made ready before the fence: an estimate (HasStealable(), which
//        group-local fibers turn on) only spares it.
//   RS4  A worker that was sent and has stolen a fiber requests another steal if more fibers wait, of its own group as
//        of any other: so all sleepers are reached even if nobody pushes any more. (Other thieves do it too,
//        harmlessly: if nobody was sent, nobody sleeps without having searched.)
//
// A Group has idle(): IdleWorkers, idle_groups(), slot(), partners(): the groups that it steals from and sends requests
// to, nearest first, partner_mask(), steal_requested(): an atomic flag, HasStealable(), MayStealFrom(loaded): it steals
// from that one, and so does not outlive it; and Send(worker, loaded): hands the worker the request and unparks it.
// SchedulingGroup, and that of tests/model/idle_loop_model.cc.
#ifndef WEFT_SCHEDULING_GROUP_STEAL_REQUEST_H_
#define WEFT_SCHEDULING_GROUP_STEAL_REQUEST_H_

#include "weft/base/atomic.h"
#include "weft/scheduling_group/idle_groups.h"
#include "weft/scheduling_group/idle_workers.h"

namespace weft::scheduling_group {

// Of its workers somebody is idle: IW1's matter.
template <class Group>
bool SomebodyIdles(Group& group) noexcept {
  return group.idle().spinners() != 0 || !group.idle().sleepers().Empty();
}

// One that has announced itself; the last search of others is still to come.
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

// The part of RequestSteal() that comes after a fence of the caller's. False: there was nobody.
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

// Any thread, after it has made a stealable fiber ready in `loaded` and a full fence.
template <class Group>
void RequestSteal(Group& loaded) {
  if (SomebodyIdles(loaded) || !loaded.idle_groups().MayIdle(loaded.partner_mask())) return;
  do {
    // relaxed, all: the fences order them. The load spares who trusts in another the line.
    if (loaded.steal_requested().load(std::memory_order_relaxed)) return;
    if (!loaded.HasStealable()) return;  // E.g. a fiber in a hand-off slot.
    if (loaded.steal_requested().exchange(true, std::memory_order_relaxed)) return;
    if (SendNearestSleeper(loaded)) return;
    loaded.steal_requested().store(false, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with that of who trusted in us.
  } while (!SomebodyIdles(loaded) && APartnerSleeps(loaded));
}

// By the worker that was sent. steal(): from `loaded`.
template <class Group, class Steal>
auto ServeStealRequest(Group& loaded, Steal steal) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with that of who trusted in us.
  auto fiber = steal();
  if (fiber != nullptr) RequestSteal(loaded);  // RS4
  return fiber;
}

template <class Group>
void ForwardStealRequest(Group& loaded) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with that of who trusted in us.
  RequestSteal(loaded);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_STEAL_REQUEST_H_
