// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The idle loop: what a worker without a fiber does. A template, so that tests/model/idle_loop_model.cc can run it;
// worker_idle.cc has the Worker, whose Spin() and Sleep() are the long parts.
//
//      find  --nothing-->  announce that it sleeps, full fence --> last search --nothing-->  sleep
//        ^                                                             |                      |
//        |                there is work in its group, or it was claimed|                      |claimed, or told to stop
//        +-------------------------------------------------------------<----------------------+
//
// A thread that claims a sleeper (clears its bit in IdleWorkers) sends an errand with the wake-up:
//
//   its own group      to search there; the worker counts as a spinner from the claim on (IW1)
//   another group      a steal request (wake_and_steal.h): to steal there first; not counted
//
// SpinPolicy decides how long and at what pace a worker searches before it sleeps. It is state only, and knows no
// clock, thread or queue: the worker tells it the time and what it sees, and follows its decisions.
//
//      BeginSpin() --> search --found--> EndSpin(true)
//                       ^   |nothing
//                       |   v
//                       | GoesOn()? --no--> EndSpin(false), and the worker goes to sleep
//                       |   |yes
//                       +- pause for PauseTime(), IsOver()? --yes--> the same
//
// A spin is long (`spin_for`) or short (one search). After kFailedSpins spins in vain in a row a worker makes short
// ones, and every kLongSpinEvery-th time a long one, to learn whether long ones pay again. The first reason below
// prolongs a spin, both make a short one long:
//
//   the workers hand fibers to each other  one worker stays up to take those that are not served (HS2): cheaper for
//                                          all than a wake-up every few microseconds
//   there is work                          the worker may get it in a moment
//
// A worker that sees work and fails to get it, search after search, naps: where threads outnumber CPUs, the thread that
// holds the work (a producer in mid-push, or a spinner, which alone may empty slots) may need the CPU. A heuristic.
//
// Invariants
//   IL1  A worker sleeps only after it has announced its sleep and then searched its own group's queues and, by
//        stealing, those of the partners (RS3).
//   IL2  A claimed worker first takes its errand, however it woke up. It does the errand or passes it on: a
//        spinner that found a fiber notifies if more wait (IW4), a request that is not served is forwarded (RS2).
//   IL3  It never yields its CPU: docs/decisions/004.
//
// A Worker has
//   Fiber, Group              types; a Group is what wake_and_steal.h asks for
//   group(), index()
//   Stopping()                end
//   Find(), Spin()            a fiber of its own group or nullptr; Spin() searches for a while, counted as a spinner
//   HasWork(), Notify()       whether its own group has work; notifies as after a push
//   StealNowAndThen()         a fiber of another group, at the rates of the neighbours
//   StealFrom(group)          a fiber of that group
//   FibersToSee(group)        how many fibers StealFrom() must have seen there to have seen all
//   kSeenBySteal              how many it sees at least, if there are so many
//   NapInSearch()             in a long last search: polls, and sleeps for a moment or until it is claimed
//   NothingFound()            before it announces that it sleeps
//   Sleep()                   sleeps until it is unparked, and calls GetUp(); or SleepUntilTimer()
//   GiveUpTimers()            kept_timers.h; so are FireTimers() and ParkUntilTimer(), until it is due or unparked
//   CountedGetUp()            GetUp(), and statistics
//   TakeErrand(), Park()      takes what was sent with a claim, or nullptr; waits for the parker's token
//   spin_policy()             a SpinPolicy; the loop asks it for naps, Spin() for the rest
//   SearchAgainAfter(nap)     a search has failed, though there is work; nap: 0, or for how long the worker sleeps now
//
// What each constant trades, with figures: docs/constants.md.
// Rejected: sched_yield() on the way to sleep, or between failed searches (IL3).
#ifndef WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_
#define WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/wake_and_steal.h"
#include "weft/scheduling_group/queue/worker_queues.h"

namespace weft::scheduling_group {

// By its worker.
class SpinPolicy {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The least `spin_for`: a spinner must stay long enough to see that a hand-off slot did not change (HS2).
  static constexpr std::chrono::nanoseconds kMinSpin{4'000};
  // Between two searches of the queue, the clock and the other workers' slots: about 0.2 us.
  static constexpr int kPausesPerSearch = 4;
  // The same where the workers hand fibers to each other: each search takes lines from them. (--workload=mutex_yield, 2
  // workers: 134 to 155 ns; 166 to 169 with searches 0.2 us apart.)
  static constexpr std::chrono::nanoseconds kPauseBesideHandOffs{500};
  static_assert(kPauseBesideHandOffs < kHandOffPatience,
                "a search comes late by a part of what a slot's fiber may wait (HS2)");
  // For the CPU time of --workload=trickle, a request each 100 us: docs/decisions/002.
  static constexpr std::uint32_t kFailedSpins = 4;
  static constexpr std::uint32_t kLongSpinEvery = 16;
  // bench/workload --workload=spawn_ext: 200 to 1,000 ns a fiber without the nap, 70 to 140 with it. With the kernel's
  // timer slack a nap takes 0.1 ms: for so long at most a worker misses that it can get its work.
  static constexpr std::uint32_t kSearchesBeforeNap = 16;
  static constexpr std::chrono::microseconds kNap{50};

  void BeginSpin(std::chrono::nanoseconds spin_for) noexcept {
    spin_for_ = spin_for;
    long_ = failed_spins_ < kFailedSpins || failed_spins_ % kLongSpinEvery == 0;
    timed_ = false;
  }

  // After a search in vain. False: the worker gives up. `hand_offs`: workers hand fibers to each other. `has_work()`,
  // called only if it matters: there is work in the group.
  template <class HasWork>
  [[nodiscard]] bool GoesOn(bool hand_offs, HasWork&& has_work) noexcept(noexcept(has_work())) {
    if (!long_) long_ = hand_offs || has_work();
    return long_;
  }

  // The least time between two searches; kPausesPerSearch apply in any case.
  [[nodiscard]] static constexpr std::chrono::nanoseconds PauseTime(bool hand_offs) noexcept {
    return hand_offs ? kPauseBesideHandOffs : std::chrono::nanoseconds(0);
  }

  // After the pause. True: the worker gives up. `alone()`, called only if it matters: the worker is the only spinner.
  // The first call starts the time of the spin, since the search and the poll before may have taken long.
  template <class Alone>
  [[nodiscard]] bool IsOver(TimePoint now, bool hand_offs, Alone&& alone) noexcept(noexcept(alone())) {
    if (!timed_ || (hand_offs && alone())) until_ = now + spin_for_;
    timed_ = true;
    return now >= until_;
  }

  void EndSpin(bool found) noexcept { failed_spins_ = found ? 0 : failed_spins_ + 1; }

  // A worker about to sleep has failed to get work that it saw. Returns the nap before the next search; 0: none.
  [[nodiscard]] std::chrono::nanoseconds NapAfterFailedSearch() noexcept {
    return ++failed_searches_ % kSearchesBeforeNap == 0 ? kNap : std::chrono::nanoseconds(0);
  }
  // The worker has found a fiber, or slept.
  void ForgetFailedSearches() noexcept { failed_searches_ = 0; }

 private:
  std::chrono::nanoseconds spin_for_{0};
  TimePoint until_;
  bool long_ = true;
  bool timed_ = false;                 // until_ is set
  std::uint32_t failed_spins_ = 0;     // in a row
  std::uint32_t failed_searches_ = 0;  // that saw work, in a row
};

template <class Group>
struct Errand {
  bool counted_as_spinner = false;
  Group* steal_from = nullptr;
};

// Takes the errand that came with a claim. nullptr: it is still on its way, or there was no claim.
template <class Atomic>
auto TakeErrandFrom(Atomic& sent_to) {
  // acquire: what the sender did. Pairs with the release in SchedulingGroup::Send().
  auto* const errand = sent_to.load(std::memory_order_acquire);
  if (errand != nullptr) sent_to.store(nullptr, std::memory_order_relaxed);
  return errand;
}

// The worker is awake: it stops being a sleeper, and takes its errand if it was claimed.
template <class Worker>
Errand<typename Worker::Group> GetUp(Worker& worker) {
  if (worker.group().idle().CancelSleep(worker.index())) return {};
  // It was claimed. The token, which follows the errand, has come or will come.
  typename Worker::Group* sent_to = worker.TakeErrand();
  if (sent_to == nullptr) worker.GiveUpTimers();  // KT1: who claimed us may have lost its CPU.
  for (; sent_to == nullptr; sent_to = worker.TakeErrand()) worker.Park();
  if (sent_to == &worker.group()) return {.counted_as_spinner = true};
  return {.steal_from = sent_to};
}

// Sleep() of a worker that keeps timers.
template <class Worker>
Errand<typename Worker::Group> SleepUntilTimer(Worker& worker) {
  worker.ParkUntilTimer();
  Errand<typename Worker::Group> errand = worker.CountedGetUp();
  // It counts as a spinner while it pushes what is due, so that this wakes nobody: it takes the first fiber itself.
  if (!errand.counted_as_spinner) errand.counted_as_spinner = worker.group().idle().TryStartSpinning();
  worker.FireTimers();
  return errand;
}

// The worker has a fiber, or ends.
template <class Worker>
void ForwardErrand(Worker& worker, const Errand<typename Worker::Group>& errand) {
  if (errand.steal_from != nullptr) ForwardStealRequest(*errand.steal_from);
  if (errand.counted_as_spinner) worker.group().idle().StopSpinning();
  if (errand.counted_as_spinner && worker.HasWork()) worker.Notify();  // IW4
}

// Does the errand. nullptr: nothing was found.
template <class Worker>
typename Worker::Fiber* SearchOnce(Worker& worker, const Errand<typename Worker::Group>& errand) {
  IdleWorkers& idle = worker.group().idle();
  typename Worker::Fiber* fiber = nullptr;
  if (errand.steal_from != nullptr) {
    fiber = ServeStealRequest(*errand.steal_from, [&] { return worker.StealFrom(*errand.steal_from); });
    if (fiber != nullptr) {
      if (errand.counted_as_spinner) idle.StopSpinning();
      if (worker.HasWork()) worker.Notify();
      return fiber;
    }
  }
  if (errand.counted_as_spinner || idle.TryStartSpinning()) {
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

// Each group-local fiber that a thief sees goes through the queue of a busy group. So it naps after so many steals, and
// takes about a tenth of its time for that.
inline constexpr int kStealsBetweenNaps = 4;

// Steals by a worker that has announced its sleep. It searches until it has seen all fibers that were there (RS3), a
// worker of the group idles, which then takes care of them, or the worker is claimed, and searches again.
template <class Worker>
typename Worker::Fiber* StealBehindLocalFibers(Worker& worker, typename Worker::Group& victim) {
  const std::size_t all = worker.FibersToSee(victim);
  for (std::size_t seen = 0, steals = 1;; ++steals) {
    if (typename Worker::Fiber* fiber = worker.StealFrom(victim)) return fiber;
    seen += Worker::kSeenBySteal;
    if (seen >= all || SomebodyIdles(victim)) return nullptr;
    if (steals % kStealsBetweenNaps == 0) worker.NapInSearch();
    if (!worker.group().idle().sleepers().Contains(worker.index())) return nullptr;
  }
}

// The last search of the partners (RS3).
template <class Worker>
typename Worker::Fiber* LastSearchOfPartners(Worker& worker) {
  for (typename Worker::Group* partner : worker.group().partners()) {
    if (SomebodyIdles(*partner) || !partner->HasStealable()) continue;
    if (typename Worker::Fiber* fiber = StealBehindLocalFibers(worker, *partner)) {
      RequestSteal(*partner);  // No fiber needs it (RS4).
      return fiber;
    }
  }
  return nullptr;
}

// nullptr: the worker is to end.
template <class Worker>
typename Worker::Fiber* NextFiberWhenIdle(Worker& worker) {
  typename Worker::Group& group = worker.group();
  Errand<typename Worker::Group> errand;
  SpinPolicy& spin = worker.spin_policy();
  spin.ForgetFailedSearches();
  for (;;) {
    if (worker.Stopping()) {
      ForwardErrand(worker, errand);
      return nullptr;
    }
    if (typename Worker::Fiber* fiber = SearchOnce(worker, errand)) return fiber;
    worker.NothingFound();
    group.idle().PrepareSleep(worker.index());
    if (group.slot() != IdleGroups::kNoSlot) group.idle_groups().Announce(group.slot());
    if (worker.HasWork() || worker.Stopping()) {
      errand = GetUp(worker);
      const bool claimed = errand.counted_as_spinner || errand.steal_from != nullptr;
      if (!claimed) worker.SearchAgainAfter(spin.NapAfterFailedSearch());
      continue;
    }
    if (typename Worker::Fiber* fiber = LastSearchOfPartners(worker)) {
      ForwardErrand(worker, GetUp(worker));
      return fiber;
    }
    errand = worker.Sleep();
    spin.ForgetFailedSearches();
  }
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_IDLE_LOOP_H_
