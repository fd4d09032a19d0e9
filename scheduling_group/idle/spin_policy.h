// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// SpinPolicy: how long and at what pace a worker without a fiber searches before it sleeps.
//
// It is state only, and knows no clock, thread or queue: the worker tells it the time and what it sees, and follows its
// decisions (worker_idle.cc, idle_loop.h).
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
// By its worker. What each constant trades, with figures: docs/constants.md.
// Rejected: to yield the CPU, see docs/decisions/004.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_SPIN_POLICY_H_
#define WEFT_SCHEDULING_GROUP_IDLE_SPIN_POLICY_H_

#include <chrono>
#include <cstdint>

#include "weft/scheduling_group/queue/hand_off_slot.h"

namespace weft::scheduling_group {

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
  // PauseBeforeWake() in notify.h: 200 to 800 ns, by the processor, a small part of the cost of a wake-up. With 2
  // workers on 2 CPUs starts from two threads (spawn_ext) take 0.90 to 0.99 of the time without it.
  static constexpr int kPausesBeforeWake = 16;

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

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_SPIN_POLICY_H_
