// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupWatch: what the Watchdog (watchdog.h) has seen of one scheduling group, and what the log should say of it:
//
//   stands still   fibers are ready, and no worker has switched
//   late timers    the timer thread has not looked at a timer that is due
//   works alone    at each look fibers were ready and no worker slept; at each look all workers of another group, which
//                  might help, slept and nothing was ready there
//   many stacks    more and more stacks are in use
//   long waits     workers switch, but ready fibers wait for long: there is more work than CPUs
//
// The first three are said when they have lasted for GroupOptions::stall_warning, and again each time that they have
// lasted twice as long. What ends and comes back is said less and less often (SayAgain). Time counts as far as the
// Watchdog has looked: a pause of all threads (a stopped process, a debugger) counts kMostSlot. For timers and for
// groups that work alone there must be kLeastLooks, too: on a busy machine looks come late, and each thread needs a
// chance to run between two of them. A timer may be set for a time that has passed: it counts as half the limit, and
// the time that it has been seen. Of the timer thread the callback is named that ran at so many looks in a row.
//
// Groups that may not help because the options say so: those with different names (--fiber_groups) are told to keep
// apart, so of such a pair nothing is said; others, as those of two sockets, must have slept kForbidden times as long.
// A group that stands still is not said to work alone, or to have long waits, too.
//
// Long waits. The age of the oldest ready fiber (ready_waits.h) is a lower bound, and of work that was started all at
// once the last piece waits for the others: so kLongWait times the limit, and again at twice that.
//
// Stacks. How many are in use is seen once a second (GroupOptions::stacks_seen_every); the least of kSeenPerLook makes
// a look, so what comes and goes does not count. If they have grown kGrowths times, each by 1 / kGrowthPart at least,
// and there are as many in all groups as GroupOptions::many_stacks, that is said of the largest group that grows, and
// again when there are twice as many. Unless the options say so, many are a quarter of the memory of the machine or the
// container, at kHeldByStack each.
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
#include <cstdint>
#include <optional>
#include <utility>

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

// When to say that something is so: when it is as much as the limit (it lasts so long), and again each time that it is
// twice as much. If it ends and comes back, it is said when it is twice as much as was said before, or after a pause,
// which doubles with each line. After kForgetAfter without it, it is new.
class SayAgain {
 public:
  using TimePoint = Streak::TimePoint;
  static constexpr std::chrono::seconds kLeastPause{10};
  static constexpr std::chrono::hours kMostPause{1};
  static constexpr std::chrono::minutes kForgetAfter{10};

  // At each look. limit 0: never.
  void Look(std::int64_t much, std::int64_t limit, TimePoint now) noexcept {
    looked_at_ = now;
    much_ = much;
    is_so_ = limit != 0 && much >= limit;
    if (now - so_at_ >= kForgetAfter) {
      said_ = 0;
      pause_ = {};
    }
    if (is_so_) so_at_ = now;
    has_ended_ = has_ended_ || !is_so_;
    due_ = is_so_ && (much >= 2 * said_ || (has_ended_ && now - said_at_ >= pause_));
  }
  void Look(std::chrono::nanoseconds lasts, std::chrono::nanoseconds limit, TimePoint now) noexcept {
    Look(lasts.count(), limit.count(), now);
  }
  bool is_so() const noexcept { return is_so_; }
  bool due() const noexcept { return due_; }
  // What the last look found.
  void Said() noexcept {
    said_ = std::max(said_, much_);
    said_at_ = looked_at_;
    pause_ = std::clamp<std::chrono::nanoseconds>(2 * pause_, kLeastPause, kMostPause);
    has_ended_ = false;
    due_ = false;
  }

 private:
  TimePoint looked_at_{};
  TimePoint so_at_{};
  TimePoint said_at_{};
  std::chrono::nanoseconds pause_{0};
  std::int64_t much_ = 0;
  std::int64_t said_ = 0;   // the most
  bool has_ended_ = false;  // since it was said
  bool is_so_ = false;
  bool due_ = false;
};

// Whether more and more stacks are in use.
class StackGrowth {
 public:
  static constexpr unsigned kSeenPerLook = 10;
  static constexpr unsigned kGrowths = 3;
  static constexpr std::size_t kGrowthPart = 48;  // Three are a sixteenth.
  static constexpr unsigned kMostLooks = 360;     // from one growth to the next: an hour

  // Once for each time that they are seen.
  void See(std::size_t in_use) noexcept;
  bool grows() const noexcept { return growths_ >= kGrowths && looks_ <= kMostLooks; }
  // At the last look, at least.
  std::size_t in_use() const noexcept { return last_; }

 private:
  std::size_t least_ = static_cast<std::size_t>(-1);  // since the last look
  unsigned seen_ = 0;
  std::size_t last_ = 0;
  std::size_t grown_to_ = 0;
  unsigned growths_ = 0;
  unsigned looks_ = 0;  // since the last growth
};

class GroupWatch {
 public:
  using TimePoint = Streak::TimePoint;
  static constexpr unsigned kLeastLooks = 10;
  static constexpr int kForbidden = 10;
  static constexpr int kLongWait = 5;

  // At each check, while the group's workers are there (TM3).
  void Look(SchedulingGroup* group, TimePoint now);

  // The trouble that the log should name now, the same one until Said(). A Standstill lacks its workers. many_stacks 0:
  // stacks are no trouble.
  // for_each(f) calls f(other, watch) for each group that is looked at, and its GroupWatch.
  template <class ForEach>
  std::optional<GroupTrouble> FindTrouble(const SchedulingGroup& group, std::size_t many_stacks, ForEach&& for_each) {
    std::size_t stacks = 0;
    bool grows_most = stacks_.grows();
    if (grows_most) {
      for_each([&](const SchedulingGroup&, const GroupWatch& watch) {
        stacks += watch.stacks_.in_use();
        grows_most = grows_most && !(watch.stacks_.grows() && watch.stacks_.in_use() > stacks_.in_use());
      });
    }
    LookAtStacks(group, grows_most ? stacks : 0, many_stacks);
    if (auto trouble = FindOwn(group, stacks)) return trouble;
    if (!alone_.due() || standstill_.is_so()) return std::nullopt;
    Helper best;
    for_each(
        [&](const SchedulingGroup& other, const GroupWatch& watch) { best.Prefer(HelperOf(group, other, watch)); });
    if (best.group == nullptr) return std::nullopt;
    return LoneGroupOf(group, best);
  }
  bool stacks_grow() const noexcept { return stacks_.grows(); }
  // After FindTrouble() and before the next Look(): the log has it.
  void Said(const GroupTrouble& trouble) noexcept;

 private:
  // One that may steal is named rather than one that may not, and of these the one that has slept longest.
  struct Helper {
    const SchedulingGroup* group = nullptr;
    bool may_steal = false;
    std::chrono::nanoseconds lasts{0};
    void Prefer(const Helper& other) noexcept {
      if (std::pair(may_steal, lasts) < std::pair(other.may_steal, other.lasts)) *this = other;
    }
  };

  // 0: too few looks.
  static std::chrono::nanoseconds LongOf(const Streak& streak) noexcept {
    return streak.looks() < kLeastLooks ? std::chrono::nanoseconds(0) : streak.lasts();
  }
  static std::chrono::nanoseconds LimitOf(const SchedulingGroup& group) noexcept;
  void LookAtTimers(const SchedulingGroup& group, TimePoint now);
  void LookAtStacks(const SchedulingGroup& group, std::size_t in_use, std::size_t many) noexcept;
  // Nobody: it need not help, or has not slept for long enough.
  Helper HelperOf(const SchedulingGroup& group, const SchedulingGroup& other, const GroupWatch& watch) const;
  std::optional<GroupTrouble> FindOwn(const SchedulingGroup& group, std::size_t stacks) const;
  std::optional<GroupTrouble> FindLateTimers(const SchedulingGroup& group) const;
  static GroupTrouble LoneGroupOf(const SchedulingGroup& group, const Helper& helper);

  TimePoint looked_at_{};
  SayAgain standstill_;
  SayAgain late_;
  SayAgain alone_;
  SayAgain many_stacks_;
  SayAgain long_waits_;
  Streak busy_;
  Streak asleep_;
  Streak timers_due_;   // for half the limit
  Streak in_callback_;  // in the same one as at the look before
  TimerThread timers_;
  StackGrowth stacks_;
  TimePoint stacks_seen_at_{};
};

// A quarter of the memory that the process may use, at kHeldByStack each. Reads files.
std::size_t ManyStacksOfThisMachine();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_GROUP_WATCH_H_
