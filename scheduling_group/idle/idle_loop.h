// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The idle loop: what a worker without a fiber does. A template, so that tests/model/idle_loop_model.cc can run it.
//
//      find  --nothing-->  announce that it sleeps, full fence --> last search --nothing-->  sleep
//        ^                                                             |                      |
//        |                there is work in its group, or it was claimed|                      |claimed, or told to stop
//        +-------------------------------------------------------------<----------------------+
//
// A thread that claims a sleeper (clears its bit in IdleWorkers) sends an order with the wake-up:
//
//   its own group      to search there; the worker counts as a spinner from the claim on (IW1)
//   another group      a steal request (steal_request.h): to steal there first; not counted
//
// Invariants
//   IL1  A worker sleeps only after it has announced its sleep and then searched its own group's queues and, by
//        stealing, those of the partners (RS3).
//   IL2  A claimed worker first takes its order, however it woke up. It carries the order out or passes it on: a
//        spinner that found a fiber notifies if more wait (IW4), a request that is not served is forwarded (RS2).
//   IL3  It never yields its CPU: worker.h says why.
//
// A Worker has
//   Fiber, Group              types; a Group is what steal_request.h asks for
//   group(), index()
//   Stopping()                end
//   Find(), Spin()            a fiber of its own group or nullptr; Spin() searches for a while, counted as a spinner
//   HasWork(), Notify()       whether its own group has work; notifies as after a push
//   StealNowAndThen()         a fiber of another group, at the rates of the neighbours
//   StealFrom(group)          a fiber of that group
//   MaySeeLess(group)         whether StealFrom() may give up before it has seen all
//   NothingFound()            before it announces that it sleeps
//   Sleep(briefly)            sleeps until it is unparked, or briefly; then calls GetUp()
//   TakeOrder(), Park()       takes what was sent with a claim, or nullptr; waits for the parker's token
//   spin_policy()             a SpinPolicy; the loop asks it for naps, Spin() for the rest
//   SearchAgainAfter(nap)     a search has failed, though there is work; nap: 0, or for how long the worker sleeps now
#ifndef WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_
#define WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_

#include "weft/scheduling_group/idle/idle_groups.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/spin_policy.h"
#include "weft/scheduling_group/idle/steal_request.h"

namespace weft::scheduling_group {

template <class Group>
struct Order {
  bool counted_as_spinner = false;
  Group* steal_from = nullptr;
};

// Takes the order that came with a claim. nullptr: it is still on its way, or there was no claim.
template <class Atomic>
auto TakeOrderFrom(Atomic& sent_to) {
  // acquire: what the sender did. Pairs with the release in SchedulingGroup::Send().
  auto* const order = sent_to.load(std::memory_order_acquire);
  if (order != nullptr) sent_to.store(nullptr, std::memory_order_relaxed);
  return order;
}

// The worker is awake: it stops being a sleeper, and takes its order if it was claimed.
template <class Worker>
Order<typename Worker::Group> GetUp(Worker& worker) {
  if (worker.group().idle().CancelSleep(worker.index())) return {};
  // It was claimed. The token, which follows the order, has come or will come.
  typename Worker::Group* sent_to = worker.TakeOrder();
  for (; sent_to == nullptr; sent_to = worker.TakeOrder()) worker.Park();
  if (sent_to == &worker.group()) return {.counted_as_spinner = true};
  return {.steal_from = sent_to};
}

// The worker has a fiber, or ends.
template <class Worker>
void ForwardOrder(Worker& worker, const Order<typename Worker::Group>& order) {
  if (order.steal_from != nullptr) ForwardStealRequest(*order.steal_from);
  if (order.counted_as_spinner) worker.group().idle().StopSpinning();
  if (order.counted_as_spinner && worker.HasWork()) worker.Notify();  // IW4
}

// Carries the order out. nullptr: nothing was found.
template <class Worker>
typename Worker::Fiber* SearchOnce(Worker& worker, const Order<typename Worker::Group>& order) {
  IdleWorkers& idle = worker.group().idle();
  typename Worker::Fiber* fiber = nullptr;
  if (order.steal_from != nullptr) {
    fiber = ServeStealRequest(*order.steal_from, [&] { return worker.StealFrom(*order.steal_from); });
    if (fiber != nullptr) {
      if (order.counted_as_spinner) idle.StopSpinning();
      if (worker.HasWork()) worker.Notify();
      return fiber;
    }
  }
  if (order.counted_as_spinner || idle.TryStartSpinning()) {
    fiber = worker.Spin();
    idle.StopSpinning();
    if (fiber == nullptr) fiber = worker.Find();  // IW4
    // Producers that saw us spin woke no worker: if more waits, we must.
    if (fiber != nullptr && worker.HasWork()) worker.Notify();
  } else {
    fiber = worker.Find();
  }
  // No steal while something waits here, for example in a busy worker's slot: its producer relied on us.
  if (fiber == nullptr && !worker.HasWork()) {
    fiber = worker.StealNowAndThen();
    if (fiber != nullptr && worker.HasWork()) worker.Notify();
  }
  return fiber;
}

// The last search of the partners (RS3). Sets *not_all if it may have overlooked something.
template <class Worker>
typename Worker::Fiber* LastSearchOfPartners(Worker& worker, bool* not_all) {
  for (typename Worker::Group* partner : worker.group().partners()) {
    if (SomebodyIdles(*partner) || !partner->HasStealable()) continue;
    if (typename Worker::Fiber* fiber = worker.StealFrom(*partner)) {
      RequestSteal(*partner);  // No fiber needs it (RS4). It wakes a worker that sleeps briefly because of `not_all`.
      return fiber;
    }
    *not_all |= worker.MaySeeLess(*partner);
  }
  return nullptr;
}

// nullptr: the worker is to end.
template <class Worker>
typename Worker::Fiber* NextFiberWhenIdle(Worker& worker) {
  typename Worker::Group& group = worker.group();
  Order<typename Worker::Group> order;
  SpinPolicy& spin = worker.spin_policy();
  spin.ForgetFailedSearches();
  for (;;) {
    if (worker.Stopping()) {
      ForwardOrder(worker, order);
      return nullptr;
    }
    if (typename Worker::Fiber* fiber = SearchOnce(worker, order)) return fiber;
    worker.NothingFound();
    group.idle().PrepareSleep(worker.index());
    if (group.slot() != IdleGroups::kNoSlot) group.idle_groups().Announce(group.slot());
    if (worker.HasWork() || worker.Stopping()) {
      order = GetUp(worker);
      const bool claimed = order.counted_as_spinner || order.steal_from != nullptr;
      if (!claimed) worker.SearchAgainAfter(spin.NapAfterFailedSearch());
      continue;
    }
    bool not_all = false;
    if (typename Worker::Fiber* fiber = LastSearchOfPartners(worker, &not_all)) {
      ForwardOrder(worker, GetUp(worker));
      return fiber;
    }
    order = worker.Sleep(/*briefly=*/not_all);
    spin.ForgetFailedSearches();
  }
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_
