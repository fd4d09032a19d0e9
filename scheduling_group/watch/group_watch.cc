// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_watch.h"

#include <unistd.h>

#include <cstdint>

#include "weft/numa/machine/cgroup.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

// What a fiber's stack holds that reads and writes, and calls a few libraries.
constexpr std::size_t kHeldByStack = std::size_t{16} << 10;

TimerThread ReadTimers(const SchedulingGroup& group) {
  // acquire: pairs with the release in timer_worker.cc.
  const TimerReader read = read_timers.load(std::memory_order_acquire);
  return read != nullptr ? read(group) : TimerThread();
}

}  // namespace

std::size_t ManyStacksOfThisMachine() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page = ::sysconf(_SC_PAGESIZE);
  constexpr double kUnknown = 1e18;
  double bytes = pages > 0 && page > 0 ? static_cast<double>(pages) * static_cast<double>(page) : kUnknown;
  if (const std::optional<double> limit = numa::ReadMemoryLimit()) bytes = std::min(bytes, *limit);
  return static_cast<std::size_t>(bytes / 4 / kHeldByStack);
}

void StackGrowth::See(std::size_t in_use) noexcept {
  least_ = std::min(least_, in_use);
  if (++seen_ != kSeenPerLook) return;
  last_ = std::exchange(least_, static_cast<std::size_t>(-1));
  seen_ = 0;
  ++looks_;
  const std::size_t part = grown_to_ / kGrowthPart;
  if (last_ > grown_to_ + part) {
    growths_ = looks_ <= kMostLooks ? growths_ + 1 : 1;
  } else if (last_ + part < grown_to_) {
    growths_ = 0;
  } else {
    return;
  }
  grown_to_ = last_;
  looks_ = 0;
}

std::chrono::nanoseconds GroupWatch::LimitOf(const SchedulingGroup& group) noexcept {
  return group.options().stall_warning;
}

void GroupWatch::Look(SchedulingGroup* group, TimePoint now) {
  looked_at_ = now;
  group->LookAtReadyFibers();
  const std::size_t ready = group->overload().ready();
  const unsigned sleepers = group->idle_workers().sleepers().Count();
  busy_.Look(ready != 0 && sleepers == 0, now);
  asleep_.Look(ready == 0 && sleepers == group->size(), now);
  LookAtTimers(*group, now);
  const std::chrono::nanoseconds limit = LimitOf(*group);
  standstill_.Look(group->overload().standstill(), limit, now);
  late_.Look(timers_.late, limit, now);
  alone_.Look(LongOf(busy_), limit, now);
  long_waits_.Look(group->overload().oldest(), kLongWait * limit, now);
  if (limit.count() != 0 && now - stacks_seen_at_ >= group->options().stacks_seen_every) {
    stacks_seen_at_ = now;
    stacks_.See(group->group_stacks().in_use());
  }
}

void GroupWatch::LookAtTimers(const SchedulingGroup& group, TimePoint now) {
  const std::chrono::nanoseconds limit = LimitOf(group);
  const TimerThread last = std::exchange(timers_, ReadTimers(group));
  in_callback_.Look(!timers_.callback.empty() && timers_.callback == last.callback, now);
  timers_due_.Look(limit.count() != 0 && timers_.late >= limit / 2, now);
  if (timers_due_.looks() < kLeastLooks) timers_.late = {};
  timers_.late = std::min(timers_.late, limit / 2 + timers_due_.lasts());
}

void GroupWatch::LookAtStacks(const SchedulingGroup& group, std::size_t in_use, std::size_t many) noexcept {
  if (group.options().many_stacks != 0) many = group.options().many_stacks;
  many_stacks_.Look(static_cast<std::int64_t>(in_use), static_cast<std::int64_t>(many), looked_at_);
}

std::optional<GroupTrouble> GroupWatch::FindOwn(const SchedulingGroup& group, std::size_t stacks) const {
  if (standstill_.due()) {
    return Standstill{.group = group.id(),
                      .label = group.Label(),
                      .ready = group.overload().ready(),
                      .lasts = group.overload().standstill(),
                      .workers = {}};
  }
  if (late_.due()) {
    if (auto trouble = FindLateTimers(group)) return trouble;
  }
  if (many_stacks_.due()) {
    return ManyStacks{.group = group.id(), .label = group.Label(), .in_use = stacks_.in_use(), .in_all = stacks};
  }
  if (!long_waits_.due() || standstill_.is_so()) return std::nullopt;
  return LongWaits{.group = group.id(),
                   .label = group.Label(),
                   .ready = group.overload().ready(),
                   .oldest = group.overload().oldest()};
}

// Nothing: since the look the thread has got on.
std::optional<GroupTrouble> GroupWatch::FindLateTimers(const SchedulingGroup& group) const {
  LateTimers trouble{.label = group.Label(), .timers = timers_, .does = LookAtThread(timers_.thread)};
  const TimerThread now = ReadTimers(group);
  if (now.late < LimitOf(group) / 2) return std::nullopt;
  if (in_callback_.looks() + 1 < kLeastLooks) {
    trouble.timers.callback = {};
  } else if (now.callback != timers_.callback) {
    return std::nullopt;
  }
  return trouble;
}

GroupWatch::Helper GroupWatch::HelperOf(const SchedulingGroup& group, const SchedulingGroup& other,
                                        const GroupWatch& watch) const {
  const bool may_steal = other.MayStealFrom(group);
  if (&other == &group || (!may_steal && other.name() != group.name())) return {};
  const std::chrono::nanoseconds lasts = std::min(LongOf(watch.asleep_), LongOf(busy_));
  if (lasts < (may_steal ? 1 : kForbidden) * LimitOf(group)) return {};
  return {.group = &other, .may_steal = may_steal, .lasts = lasts};
}

GroupTrouble GroupWatch::LoneGroupOf(const SchedulingGroup& group, const Helper& helper) {
  return LoneGroup{.group = group.id(),
                   .label = group.Label(),
                   .helper = helper.group->Label(),
                   .may_steal = helper.may_steal,
                   .same_node = helper.group->node() == group.node(),
                   .ready = group.overload().ready(),
                   .lasts = helper.lasts};
}

void GroupWatch::Said(const GroupTrouble& trouble) noexcept {
  struct Of {
    SayAgain& operator()(const Standstill&) const { return watch.standstill_; }
    SayAgain& operator()(const LateTimers&) const { return watch.late_; }
    SayAgain& operator()(const LoneGroup&) const { return watch.alone_; }
    SayAgain& operator()(const ManyStacks&) const { return watch.many_stacks_; }
    SayAgain& operator()(const LongWaits&) const { return watch.long_waits_; }
    GroupWatch& watch;
  };
  std::visit(Of{*this}, trouble).Said();
}

}  // namespace weft::scheduling_group
