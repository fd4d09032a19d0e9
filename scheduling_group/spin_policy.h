// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// SpinPolicy: for how long and at what pace a worker without a fiber searches, before it sleeps.
//
// It is state only: the worker tells it the time and what it sees, and does what it decides (worker_idle.cc,
// idle_loop.h). It knows no clock, thread or queue.
//
//      BeginSpin() --> search --found--> EndSpin(true)
//                       ^   |nothing
//                       |   v
//                       | GoesOn()? --no--> EndSpin(false), and the worker goes to sleep
//                       |   |yes
//                       +- pause for PauseTime(), IsOver()? --yes--> the same
//
// A spin is long, for `spin_for`, or short: one search. Long ones pay where the next fiber comes soon. So a worker that
// has spun in vain kFailedSpins times in a row makes short ones, and every kLongSpinEvery-th time a long one, to find
// out whether they pay again. A spin ends late for one reason only, and a short one becomes long for two:
//
//   the workers hand fibers to each other  one worker stays up to take those that are not served (HS2): cheaper for
//                                          all than a wake-up every few microseconds
//   there is work                          the worker may get it in a moment
//
// A worker that sees work and cannot get it, search after search, naps: the thread that could give it may have no CPU,
// where threads outnumber CPUs: a producer in the middle of a push, or a spinner, since only spinners take from slots.
// Nothing depends on the nap: the worker is awake, and searches again.
//
// By its worker. What each constant trades, with figures: docs/constants.md.
// Rejected: to yield the CPU, see docs/decisions/004.
#ifndef WEFT_SCHEDULING_GROUP_SPIN_POLICY_H_
#define WEFT_SCHEDULING_GROUP_SPIN_POLICY_H_

#include <chrono>
#include <cstdint>

#include "weft/scheduling_group/hand_off_slot.h"

namespace weft::scheduling_group {

class SpinPolicy {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The least `spin_for`: a spinner must stay long enough to see that a hand-off slot does not change (HS2).
  static constexpr std::chrono::nanoseconds kMinSpin{4'000};
  // Between two searches of the queue, the clock and the other workers' slots: about 0.2 us.
  static constexpr int kPausesPerSearch = 4;
  // The same where the workers hand fibers to each other: each search takes lines from them.
  // (bench/workload --workload=mutex_yield --workers=2: 134 to 155 ns; 166 to 169 with searches 0.2 us apart; 130 to
  // 147 with 1 us.)
  static constexpr std::chrono::nanoseconds kPauseBesideHandOffs{500};
  static_assert(kPauseBesideHandOffs < kHandOffPatience,
                "a search comes late by a part of what a slot's fiber may wait (HS2)");
  // CPU time of --workload=trickle, a request each 100 us: docs/decisions/002.
  static constexpr std::uint32_t kFailedSpins = 4;
  static constexpr std::uint32_t kLongSpinEvery = 16;
  // bench/workload --workload=spawn_ext: 200 to 1,000 ns a fiber without the nap, 70 to 140 with it. With the kernel's
  // timer slack it takes 0.1 ms, about as long as a few hundred pushes: the longest time for which a worker overlooks
  // that its work can be had now.
  static constexpr std::uint32_t kSearchesBeforeNap = 16;
  static constexpr std::chrono::microseconds kNap{50};
  // By a plain thread that has started a fiber, before it wakes a worker: some 200 ns to 800 ns, by the processor, a
  // small part of what the wake-up costs. If another worker is up it may come first, end a short fiber, take the new
  // one and spin. With 2 workers on 2 CPUs starts from two threads (spawn_ext) take 0.90 to 0.99 of the time without. 4
  // pauses are as good on an Intel Xeon; on an AMD EPYC 16 take 0.89 (v1) and 0.93 (v2) of the time of 4.
  static constexpr int kPausesBeforeWake = 16;

  void BeginSpin(std::chrono::nanoseconds spin_for) noexcept {
    spin_for_ = spin_for;
    long_ = failed_spins_ < kFailedSpins || failed_spins_ % kLongSpinEvery == 0;
    timed_ = false;
  }

  // A search has found nothing. False: the worker gives up. `hand_offs`: the workers hand fibers to each other.
  // `has_work`: called if it matters; there is some in the group.
  template <class HasWork>
  [[nodiscard]] bool GoesOn(bool hand_offs, HasWork&& has_work) noexcept(noexcept(has_work())) {
    if (!long_) long_ = hand_offs || has_work();
    return long_;
  }

  // From one search to the next, at least; kPausesPerSearch in any case.
  [[nodiscard]] static constexpr std::chrono::nanoseconds PauseTime(bool hand_offs) noexcept {
    return hand_offs ? kPauseBesideHandOffs : std::chrono::nanoseconds(0);
  }

  // After the pause. True: the worker gives up. `alone`: called if it matters; the worker is the only spinner. The time
  // of a spin begins here, at the first call: the search and the poll before it may have taken long.
  template <class Alone>
  [[nodiscard]] bool IsOver(TimePoint now, bool hand_offs, Alone&& alone) noexcept(noexcept(alone())) {
    if (!timed_ || (hand_offs && alone())) until_ = now + spin_for_;
    timed_ = true;
    return now >= until_;
  }

  void EndSpin(bool found) noexcept { failed_spins_ = found ? 0 : failed_spins_ + 1; }

  // A worker that is about to sleep has seen work, and its search has failed. Returns the nap that it takes before the
  // next one; 0: none.
  [[nodiscard]] std::chrono::nanoseconds NapAfterFailedSearch() noexcept {
    return ++failed_searches_ % kSearchesBeforeNap == 0 ? kNap : std::chrono::nanoseconds(0);
  }
  // It has found a fiber, or slept.
  void ForgetFailedSearches() noexcept { failed_searches_ = 0; }

 private:
  std::chrono::nanoseconds spin_for_{0};
  TimePoint until_;
  bool long_ = true;
  bool timed_ = false;                 // until_ is set
  std::uint32_t failed_spins_ = 0;     // in a row
  std::uint32_t failed_searches_ = 0;  // that saw work, in a row
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_SPIN_POLICY_H_
