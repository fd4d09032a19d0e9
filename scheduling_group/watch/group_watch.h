// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupWatch: what the Watchdog (watchdog.h) has seen of one scheduling group so far, and what the log should say of it:
//
//   stands still   fibers are ready, and no worker has switched
//   late timers    the timer thread has not looked at a timer that is due
//   works alone    at each look fibers were ready and no worker slept; at each look all workers of another group, which
//                  might help, slept and nothing was ready there
//   many stacks    more and more stacks are in use
//
// The first three are said when they have lasted for GroupOptions::stall_warning, and again each time that they have
// lasted twice as long. Time counts as far as the Watchdog has looked: a pause of all threads (a stopped process, a
// debugger) counts kMostSlot. For timers and for groups that work alone there must be kLeastLooks, too: on a busy
// machine looks come late, and each thread needs a chance to run between two of them. A timer may be set for a time
// that has passed: it counts as half the limit, and the time that it has been seen.
//
// Groups with different names (--fiber_groups) keep their work apart because they were told to: of such a pair nothing
// is said, unless they share.
//
// Stacks. How many are in use is seen once a second (GroupOptions::stacks_seen_every); the least of kSeenPerLook makes
// a look, so what comes and goes does not count. More at kGrowingLooks looks in a row, and no fewer than
// GroupOptions::many_stacks: that is said, and again when there are twice as many. Unless the options say so, many are
// a quarter of the memory of the machine or the container, at kHeldByStack each.
//
// Cost: a few loads at each check, one more for each worker and timer shard. Nothing is counted for it.
// By the Watchdog's thread. What it reads of a group is relaxed: each value is used alone, and may be late by a look.
// Rejected: the age of the oldest ready fiber for groups that work alone (fibers that yield are never old); a limit in
// bytes for stacks (what they hold cannot be known without a system call for each).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_GROUP_WATCH_H_
#define WEFT_SCHEDULING_GROUP_WATCH_GROUP_WATCH_H_

#include <sys/types.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>

#include "weft/scheduling_group/watch/watch_report.h"

namespace weft::scheduling_group {

class SchedulingGroup;

// How long something has been so at each look.
class Streak {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds kMostSlot{100};

  void Look(bool is_so, TimePoint now) noexcept {
    lasts_ = is_so && looks_ != 0 ? lasts_ + std::min<std::chrono::nanoseconds>(now - looked_at_, kMostSlot)
                                  : std::chrono::nanoseconds(0);
    looks_ = is_so ? looks_ + 1 : 0;
    looked_at_ = now;
  }
  std::chrono::nanoseconds lasts() const noexcept { return lasts_; }
  unsigned looks() const noexcept { return looks_; }

 private:
  TimePoint looked_at_{};
  std::chrono::nanoseconds lasts_{0};
  unsigned looks_ = 0;
};

// When to say that something lasts: at the limit, and each time that it has lasted twice as long.
class SayAgain {
 public:
  // At each look. limit 0: never.
  void Look(std::chrono::nanoseconds lasts, std::chrono::nanoseconds limit) noexcept {
    lasts_ = lasts;
    const bool long_enough = limit.count() != 0 && lasts >= limit;
    if (!long_enough) said_ = {};
    due_ = long_enough && lasts >= 2 * said_;
  }
  bool due() const noexcept { return due_; }
  void Said() noexcept { said_ = lasts_; }

 private:
  std::chrono::nanoseconds lasts_{0};
  std::chrono::nanoseconds said_{0};
  bool due_ = false;
};

// Whether more and more stacks are in use.
class StackGrowth {
 public:
  static constexpr unsigned kSeenPerLook = 10;
  static constexpr unsigned kGrowingLooks = 3;

  // Once for each time that they are seen.
  void See(std::size_t in_use) noexcept;
  bool IsDue(std::size_t many) const noexcept {
    return growing_ >= kGrowingLooks && last_ >= many && last_ / 2 >= said_;
  }
  void Said() noexcept { said_ = last_; }
  // At the last look, at least.
  std::size_t in_use() const noexcept { return last_; }

 private:
  std::size_t least_ = static_cast<std::size_t>(-1);  // since the last look
  unsigned seen_ = 0;
  std::size_t last_ = 0;
  unsigned growing_ = 0;  // looks in a row
  std::size_t said_ = 0;
};

class GroupWatch {
 public:
  using TimePoint = Streak::TimePoint;
  static constexpr unsigned kLeastLooks = 10;

  // At each check, while the group's workers are there (TM3).
  void Look(SchedulingGroup* group, TimePoint now);

  // What is to be said of the group now: it counts as said. A Standstill is without its workers.
  // for_each(f) calls f(other, watch) for each group that is looked at, and its GroupWatch.
  template <class ForEach>
  std::optional<GroupTrouble> TakeTrouble(const SchedulingGroup& group, ForEach&& for_each) {
    if (auto trouble = TakeOwn(group)) return trouble;
    if (!alone_.due()) return std::nullopt;
    const SchedulingGroup* helper = nullptr;
    std::chrono::nanoseconds longest{0};
    for_each([&](const SchedulingGroup& other, const GroupWatch& watch) {
      if (LongOf(watch.asleep_) <= longest || !BelongTogether(group, other)) return;
      longest = LongOf(watch.asleep_);
      helper = &other;
    });
    if (helper == nullptr || longest < LimitOf(group)) return std::nullopt;
    return TakeAlone(group, *helper, std::min(longest, busy_.lasts()));
  }

 private:
  // 0: too few looks.
  static std::chrono::nanoseconds LongOf(const Streak& streak) noexcept {
    return streak.looks() < kLeastLooks ? std::chrono::nanoseconds(0) : streak.lasts();
  }
  static std::chrono::nanoseconds LimitOf(const SchedulingGroup& group) noexcept;
  static bool BelongTogether(const SchedulingGroup& group, const SchedulingGroup& other) noexcept;
  std::optional<GroupTrouble> TakeOwn(const SchedulingGroup& group);
  GroupTrouble TakeAlone(const SchedulingGroup& group, const SchedulingGroup& helper, std::chrono::nanoseconds lasts);

  SayAgain standstill_;
  SayAgain late_;
  SayAgain alone_;
  Streak busy_;
  Streak asleep_;
  Streak timers_due_;  // for half the limit
  TimerThread timers_;
  StackGrowth stacks_;
  TimePoint stacks_seen_at_{};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_GROUP_WATCH_H_
