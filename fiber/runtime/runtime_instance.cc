// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_instance.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/runtime/unfinished_fibers.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/watch/slice_limits.h"
#include "weft/scheduling_group/worker/worker_slot.h"

namespace weft::fiber::detail {

using scheduling_group::PlannedGroup;
using scheduling_group::SchedulingGroup;
using scheduling_group::WorkerTeam;
using timer::TimerWorker;

constinit std::atomic<RuntimeInstance*> the_runtime{nullptr};

namespace {

// In a forked child (RT6).
constinit std::atomic<bool> are_the_parents{false};

}  // namespace

RetiredGroups& RetiredGroups::Get() {
  static auto* const retired = new RetiredGroups;
  return *retired;
}

void RetiredGroups::Reserve(std::size_t groups) {
  KeepTheParentsApart();
  closed_.reserve(closed_.size() + groups);
  with_unfinished_fibers_.reserve(with_unfinished_fibers_.size() + groups);
}

void RetiredGroups::BelongToParent() noexcept { are_the_parents.store(true, std::memory_order_relaxed); }

void RetiredGroups::KeepTheParentsApart() {
  // relaxed: set while the process has one thread.
  if (!are_the_parents.load(std::memory_order_relaxed)) return;
  auto& kept = with_unfinished_fibers_;
  kept.reserve(kept.size() + closed_.size());
  std::move(closed_.begin(), closed_.end(), std::back_inserter(kept));  // Descriptors may refer to their pollers.
  closed_.clear();
  are_the_parents.store(false, std::memory_order_relaxed);
}

std::unique_ptr<SchedulingGroup> RetiredGroups::ReuseOrMake(const SchedulingGroup::Options& options) {
  const auto found =
      std::find_if(closed_.begin(), closed_.end(), [&](const auto& group) { return group->CanReopen(options); });
  if (found == closed_.end()) {
    return std::unique_ptr<SchedulingGroup>(new (numa::OnNode{options.node}) SchedulingGroup(options));
  }
  (*found)->Reopen(options);  // May throw: before it leaves the list.
  std::unique_ptr<SchedulingGroup> group = std::move(*found);
  closed_.erase(found);
  return group;
}

void RetiredGroups::Retire(std::vector<std::unique_ptr<SchedulingGroup>> groups, std::size_t unfinished) {
  const bool closes = unfinished == 0 && !scheduling_group::LeftThreads::Any();
  auto& list = closes ? closed_ : with_unfinished_fibers_;
  for (auto& group : groups) {
    group->SetIdleHook({});
    if (closes) {
      group->Close();
    } else {
      group->Abandon();
      (void)group->stacks().Trim(0);
    }
    list.push_back(std::move(group));
  }
  unfinished_fibers_ += unfinished;
  if (unfinished != 0) scheduling_group::LostFibers::Add(unfinished);
}

bool RuntimeInstance::Start(const RuntimeOptions& options, RuntimePlan planned, std::string* error) {
  plan_ = std::move(planned.plan);
  // Before there are threads: in a process of several the kernel takes 10 ms.
  scheduling_group::UseHeavyFenceForReadSections();
  scheduling_group::SliceLimits::Set(options.slice_warning, options.slice_error);
  MakeGroups(options, planned.here);
  IntroduceNeighbours(options);
  if (!StartTimers(error) || !StartWorkers(error)) return false;
  ResetLimiter(static_cast<std::size_t>(options.limit_fibers), RetiredGroups::Get().unfinished_fibers());
  return true;
}

void RuntimeInstance::MakeGroups(const RuntimeOptions& options, const numa::Topology& here) {
  RetiredGroups::Get().Reserve(plan_.groups.size());
  groups_.reserve(plan_.groups.size());
  group_pointers_.reserve(plan_.groups.size());
  for (const PlannedGroup& planned : plan_.groups) {
    const int id = static_cast<int>(groups_.size());
    groups_.push_back(RetiredGroups::Get().ReuseOrMake(OptionsOfGroup(id, planned, options, here)));
    group_pointers_.push_back(groups_.back().get());
    largest_group_ = std::max<std::size_t>(largest_group_, planned.workers);
    worker_count_ += planned.workers;
  }
}

void RuntimeInstance::IntroduceNeighbours(const RuntimeOptions& options) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    std::vector<SchedulingGroup::Neighbour> neighbours;
    for (const PlannedGroup::Neighbour& neighbour : plan_.groups[i].neighbours) {
      const std::int64_t every_n = StealEveryN(neighbour, options);
      if (every_n == 0) continue;
      neighbours.push_back({.group = groups_[static_cast<std::size_t>(neighbour.group)].get(),
                            .steal_every_n = static_cast<unsigned>(every_n),
                            .distance = neighbour.distance});
    }
    groups_[i]->SetNeighbours(neighbours);
  }
}

bool RuntimeInstance::StartTimers(std::string* error) {
  timers_.reserve(groups_.size());
  for (const auto& group : groups_) {
    TimerWorker::Options options;
    options.group = group.get();
    options.for_all_threads = group->name() == groups_.front()->name();
    if ((options.driver = timer::TimerDriver::Current()) != nullptr) options.clock = &base::the_fiber_time;
    options.trim = [group = group.get()] { return group->TrimIdleMemory(); };
    timers_.push_back(std::make_unique<TimerWorker>(std::move(options)));
    group->SetIdleHook(
        {.call = [](void* timer) { static_cast<TimerWorker*>(timer)->RequestTrim(); }, .arg = timers_.back().get()});
    if (timers_.back()->Start()) continue;
    *error = base::StrCat("the system gave no thread for the timers of scheduling group ", group->Label());
    return false;
  }
  return true;
}

bool RuntimeInstance::StartWorkers(std::string* error) {
  teams_.reserve(groups_.size());
  for (const auto& group : groups_) {
    teams_.push_back(std::make_unique<WorkerTeam>(group.get()));
    if (teams_.back()->Start()) continue;
    *error = base::StrCat("the system gave no thread for a worker of scheduling group ", group->Label());
    return false;
  }
  return true;
}

void RuntimeInstance::Publish() noexcept {
  // The groups last: from then on there are fibers, which may ask for the runtime.
  // release: the object.  Pairs with the acquire in AskRuntime().
  the_runtime.store(this, std::memory_order_release);
  scheduling_group::SetGroups(group_pointers_);
}

void RuntimeInstance::StopWorkers(Deadline give_up) {
  for (const auto& group : groups_) group->Stop();
  for (const auto& team : teams_) {
    for (const scheduling_group::LeftWorker& left : team->Join(give_up)) {
      WEFT_LOG(ERROR, "TerminateRuntime: ", scheduling_group::DescribeFiber(left.fiber_name, left.fiber_id),
               " neither suspends nor ends: it blocks worker ", left.worker, " of scheduling group ",
               groups_[static_cast<std::size_t>(left.group)]->Label(), " (thread ", left.thread_id,
               "), which is left behind");
    }
  }
}

void RuntimeInstance::Undo() {
  StopWorkers(Deadline::None());
  for (const auto& timer : timers_) {
    timer->Stop();
    timer->Retire();
  }
  scheduling_group::WaitForReadSections();  // The poller's watch may be in one.
  Retire(/*unfinished=*/0);
}

// Waits for the end of all fibers except former runtimes' unfinished ones; false: the time is up.
bool RuntimeInstance::Drain() {
  return scheduling_group::WaitUntilNoFibers(drain_deadline_, RetiredGroups::Get().unfinished_fibers());
}

std::size_t RuntimeInstance::Terminate() {
  timer::TimerDriver* const test_clock = timer::TimerDriver::Current();
  using Clock = std::chrono::steady_clock;  // Threads come back on the wall, also under a test clock.
  const Deadline give_up = Deadline::After(terminate_timeout_ + grace_for_threads_, Clock::now());
  drain_deadline_ = Deadline(terminate_timeout_);
  if (test_clock != nullptr) test_clock->BeginDrain(drain_deadline_, terminate_timeout_);
  RefuseOutsiders(true);
  for (const auto& group : groups_) group->RefuseNewFibers();
  scheduling_group::WaitForReadSections();  // RT2
  for (const auto& timer : timers_) timer->DropCallbacks();

  if (!Drain()) WarnOfFibersAlive(group_pointers_, terminate_timeout_);
  for (const auto& timer : timers_) timer->Stop(give_up);
  // A timer thread may have started a fiber for a callback that was due, as its last act.
  const bool drained = Drain();
  if (test_clock != nullptr) test_clock->EndDrain();

  // Where no fiber is left the workers come back by themselves.
  StopWorkers(drained ? Deadline::None() : std::max(give_up, Deadline::After(grace_for_threads_, Clock::now())));
  the_runtime.store(nullptr, std::memory_order_relaxed);  // SetGroups() has a fence.
  scheduling_group::SetGroups({});                        // And waits (RT3).
  const std::size_t unfinished = drained ? 0 : ReportUnfinishedFibers(group_pointers_);
  for (const auto& timer : timers_) timer->Retire();
  Retire(unfinished);
  RefuseOutsiders(false);
  return unfinished;
}

bool RuntimeInstance::MayBeDestroyed() { return !scheduling_group::LeftThreads::Any(); }

void RuntimeInstance::Retire(std::size_t unfinished) {
  RetiredGroups::Get().Retire(std::move(groups_), unfinished);
  groups_.clear();
  (void)scheduling_group::EntityPool::Trim();
}

std::size_t RuntimeInstance::GroupsNamed(std::string_view name) const {
  const std::vector<PlannedGroup>& groups = plan_.groups;
  const bool none_has = groups.front().name.empty();
  for (std::size_t g = 0; g < groups.size() && !none_has; ++g) {
    if (groups[g].name == name) return scheduling_group::kNamedGroups + g;
  }
  std::string names;
  for (std::size_t g = 0; g < groups.size() && !none_has; ++g) {
    if (g == 0 || groups[g].name != groups[g - 1].name) names += (g == 0 ? "" : ", ") + groups[g].name;
  }
  WEFT_CHECK(none_has, "SchedulingGroupNamed: there is no scheduling group named '", name, "', only ", names);
  // relaxed: it says nothing about other data. Once: a program may ask for each request.
  if (!has_warned_of_no_names_.load(std::memory_order_relaxed) &&
      !has_warned_of_no_names_.exchange(true, std::memory_order_relaxed)) {
    WEFT_LOG(WARNING, "SchedulingGroupNamed: no scheduling group has a name (--fiber_groups), so '", name,
             "' is not kept apart from other work");
  }
  return kNearestSchedulingGroup;
}

std::vector<scheduling_group::GroupCounts> RuntimeInstance::counts() const {
  std::vector<scheduling_group::GroupCounts> counts;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    counts.push_back(scheduling_group::ReadCounts(*groups_[g]));
    counts.back().timers = timers_[g]->counts();
  }
  return counts;
}

}  // namespace weft::fiber::detail
