// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_watch.h"

#include <unistd.h>

#include <cstdint>
#include <fstream>

#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

// What a fiber's stack holds that reads and writes, and calls a few libraries.
constexpr std::size_t kHeldByStack = std::size_t{16} << 10;

// Those that hold a quarter of what the process may have.
std::size_t ManyStacksOfThisMachine() {
  static const std::size_t many = [] {
    std::uint64_t bytes =
        static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::uint64_t limit = 0;
    std::ifstream file("/sys/fs/cgroup/memory.max");  // "max", or of a container
    if (file >> limit) bytes = std::min(bytes, limit);
    return static_cast<std::size_t>(bytes / 4 / kHeldByStack);
  }();
  return many;
}

}  // namespace

void StackGrowth::See(std::size_t in_use) noexcept {
  least_ = std::min(least_, in_use);
  if (++seen_ != kSeenPerLook) return;
  growing_ = least_ > last_ ? growing_ + 1 : 0;
  if (least_ < said_ / 2) said_ = 0;  // It is over.
  last_ = least_;
  least_ = static_cast<std::size_t>(-1);
  seen_ = 0;
}

std::chrono::nanoseconds GroupWatch::LimitOf(const SchedulingGroup& group) noexcept {
  return group.options().stall_warning;
}

bool GroupWatch::BelongTogether(const SchedulingGroup& group, const SchedulingGroup& other) noexcept {
  return &group != &other && (group.name() == other.name() || other.MayStealFrom(group));
}

void GroupWatch::Look(SchedulingGroup* group, TimePoint now) {
  group->LookAtReadyFibers();
  const std::size_t ready = group->overload().ready();
  const unsigned sleepers = group->idle_workers().sleepers().Count();
  busy_.Look(ready != 0 && sleepers == 0, now);
  asleep_.Look(ready == 0 && sleepers == group->size(), now);
  // acquire: pairs with the release in timer_worker.cc.
  const TimerReader read = read_timers.load(std::memory_order_acquire);
  timers_ = read != nullptr ? read(*group) : TimerThread();
  const std::chrono::nanoseconds limit = LimitOf(*group);
  timers_due_.Look(limit.count() != 0 && timers_.late >= limit / 2, now);
  if (timers_due_.looks() < kLeastLooks) timers_.late = {};
  timers_.late = std::min(timers_.late, limit / 2 + timers_due_.lasts());
  standstill_.Look(group->overload().standstill(), limit);
  late_.Look(timers_.late, limit);
  alone_.Look(LongOf(busy_), limit);
  if (limit.count() != 0 && now - stacks_seen_at_ >= group->options().stacks_seen_every) {
    stacks_seen_at_ = now;
    stacks_.See(group->group_stacks().in_use());
  }
}

std::optional<GroupTrouble> GroupWatch::TakeOwn(const SchedulingGroup& group) {
  if (standstill_.due()) {
    standstill_.Said();
    return Standstill{.group = group.id(),
                      .label = group.Label(),
                      .ready = group.overload().ready(),
                      .lasts = group.overload().standstill(),
                      .workers = {}};
  }
  if (late_.due()) {
    late_.Said();
    return LateTimers{.label = group.Label(), .timers = timers_};
  }
  const std::size_t many = group.options().many_stacks;
  if (stacks_.IsDue(many != 0 ? many : ManyStacksOfThisMachine())) {
    stacks_.Said();
    return ManyStacks{.group = group.id(),
                      .label = group.Label(),
                      .in_use = stacks_.in_use(),
                      .stack_size = group.options().stack_size};
  }
  return std::nullopt;
}

GroupTrouble GroupWatch::TakeAlone(const SchedulingGroup& group, const SchedulingGroup& helper,
                                   std::chrono::nanoseconds lasts) {
  alone_.Said();
  return LoneGroup{.group = group.id(),
                   .label = group.Label(),
                   .helper = helper.Label(),
                   .may_steal = helper.MayStealFrom(group),
                   .ready = group.overload().ready(),
                   .lasts = lasts};
}

}  // namespace weft::scheduling_group
