// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/scheduling_group.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/idle/idle_loop.h"
#include "weft/scheduling_group/policy/policy_loop.h"
#include "weft/scheduling_group/queue/start_when_full.h"

namespace weft::scheduling_group {

static_assert(kMaxWorkersPerGroup <= Recorder::kMostWorkers);

bool SchedulingGroup::Start(FiberEntity* fiber) {
  WorkerBase* caller = CurrentWorker();
  if (RefusesStartOf(caller)) [[unlikely]] {
    return false;
  }
  RecordIfAll(caller, fiber, ReadyReason::kStarted);
  SamplePush(caller, fiber, ReadyReason::kStarted);
  const bool local = fiber->group_local();  // After the push it is another's.
  const int worker = WorkerOf(caller, this);
  if (parts_->policy.TryPushNewAndFence(fiber, worker)) [[likely]] {
    if (caller == nullptr) PauseBeforeWake(idle_, size());
    NotifyAfterFence(local, worker);
    return true;
  }
  return StartWhenFull(*this, fiber);
}

bool SchedulingGroup::StartBatch(FiberEntity* const* fibers, std::size_t count) {
  if (RefusesStartOf(CurrentWorker())) return false;
  if (policy().Full() && !WaitBeforeBatch(*this)) return false;
  // The batch is accepted as a whole: fibers beyond the ring's capacity wait in the overflow list.
  ReadyBatch(fibers, count, ReadyReason::kStarted);
  return true;
}

void SchedulingGroup::Ready(FiberEntity* fiber, ReadyReason reason) {
  WorkerBase* caller = CurrentWorker();
  ReadyBy(caller, WorkerOf(caller, this), fiber, reason);
}

void SchedulingGroup::ReadyBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason,
                                 bool as_from_outside) {
  WorkerBase* caller = CurrentWorker();
  for (std::size_t i = 0; attention_.any() && i < count; ++i) RecordPush(caller, fibers[i], reason);
  PushCountdownOf(caller).CountEach(count, [=, this](std::size_t i) { StampFiber(caller, fibers[i], reason); });
  policy().PushBatch(fibers, count, reason, as_from_outside ? SchedulingPolicy::kNoWorker : WorkerOf(caller, this));
  Notify();
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::StampFiber(WorkerBase* caller, FiberEntity* fiber,
                                                         ReadyReason reason) noexcept {
  PushSampler& sampler =
      caller != nullptr ? caller->group->worker_slot(caller->index).push_sampler : ThisThreadsPushSampler().sampler;
  if (Recorder::level() == RecordLevel::kSampled) {
    if (reason == ReadyReason::kWoken) Recorder::Woken(caller, fiber, /*sampled=*/true, sampler.shift());
    if (reason == ReadyReason::kStarted) Recorder::Started(caller, fiber);
  }
  parts_->ready_waits.Stamp(fiber, sampler, &PushCountdownOf(caller));
}

WEFT_NOINLINE void SchedulingGroup::RecordPush(WorkerBase* caller, FiberEntity* fiber, ReadyReason reason) noexcept {
  if (!attention_.recorded()) return;
  if (reason == ReadyReason::kWoken) Recorder::Woken(caller, fiber, /*sampled=*/false, 0);
  if (reason == ReadyReason::kStarted) Recorder::Started(caller, fiber);
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::RecordReadyWait(unsigned worker, FiberEntity* fiber) noexcept {
  parts_->ready_waits.Record(worker, fiber);
  Recorder::Ran(CurrentWorker(), fiber);
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::RecordStolenWait(unsigned worker, FiberEntity* fiber) noexcept {
  parts_->ready_waits.RecordStolen(worker, fiber);
  Recorder::Ran(CurrentWorker(), fiber);
}

// The poll comes first, so that the pop can bring what it made ready.
WEFT_NOINLINE FiberEntity* SchedulingGroup::PollAndPop(unsigned worker) {
  if (of_loop()) {  // It polls, and looks after the timers, on its own stack: back to it.
    worker_slot(worker).poll_pace.OnPoll(std::chrono::steady_clock::now());
    return nullptr;
  }
  {
    const NoWaitSection not_the_fiber;  // On its stack, but its wakes are not the fiber's (AD2).
    const context::KeepErrno keep(&context::ThisThreadErrno());  // of the fiber that is about to leave
    worker_slot(worker).poll_pace.Poll(reactor());
  }
  return PopNow(worker);
}

// Names never adopt each other's fibers, even if they share (named_groups.h).
bool SchedulingGroup::MayAdoptFrom(const SchedulingGroup& former) const noexcept {
  return neighbours().MayAdoptFrom(former) && name() == former.name();
}

// For each worker, by estimates; without the fiber that the caller's worker takes when its fiber parks.
bool SchedulingGroup::HasMoreReadyThan(const SchedulingGroup& other) const {
  const std::size_t ready = queue_size();
  return ready > 1 && (ready - 1) * other.size() > other.queue_size() * size();
}

FiberEntity* SchedulingGroup::PopForSteal(int distance) {
  if (stopping()) return nullptr;
  bool must_notify = false;
  FiberEntity* fiber = policy().Steal(&must_notify);
  // No steal request: it would send thieves after fibers that are group-local.
  if (must_notify && !idle_.NobodyToWake()) (void)WakeSleeper(*this);
  CapacityFreed();
  if (fiber != nullptr) stolen_out_[distance == kSameNode].fetch_add(1, std::memory_order_relaxed);
  return fiber;
}

WEFT_NOINLINE WEFT_COLD void SchedulingGroup::EndWaitElsewhere() {
  if (loop_hook_.wake != nullptr) {
    loop_hook_.wake(loop_hook_.arg);
  } else {
    reactor()->Interrupt();
  }
}

// By a worker that found nothing ready in the group and is about to sleep.
void SchedulingGroup::CallIdleHook() {
  if (WorkerBase* worker = CurrentWorker()) {
    worker_slot(worker->index).push_sampler.Forget(&worker->push_countdown);
  }
  if (idle_hook_.call != nullptr) idle_hook_.call(idle_hook_.arg);
}

void SchedulingGroup::LookAtReadyFibers() noexcept {
  // relaxed, all: each count is read alone.
  std::uint64_t turns = 0;
  for (unsigned w = 0; w < size(); ++w) {
    turns +=
        counters(w).switches.load(std::memory_order_relaxed) + counters(w).finished.load(std::memory_order_relaxed);
  }
  for (const auto& stolen : stolen_out_) turns += stolen.load(std::memory_order_relaxed);
  std::size_t ready = queue_size();
  if (ready == 0 && policy().HasWork()) ready = 1;  // In a place that is not counted.
  parts_->ready_waits.Look(turns, ready);
}

WEFT_COLD void SchedulingGroup::AddWithoutStack(FiberEntity* fiber) {
  const auto fiber_id = fiber->id();  // Once in the list it is no longer ours.
  stack_waiters_.Add(fiber);
  // Sleeping workers may have stacks in their caches, and sleep without a limit.
  const int caller = WorkerOf(CurrentWorker(), this);
  for (unsigned w = 0; w < size(); ++w) {
    if (static_cast<int>(w) != caller) Unpark(w);
  }
  try {
    WEFT_LOG_EVERY_SECOND(WARNING, "SchedulingGroup ", Label(), ": no stack for fiber ", fiber_id,
                          ", it waits until another fiber ends (what there is not enough of, the stack pool says)");
  } catch (const std::bad_alloc&) {
    // No memory for the line either.
  }
}

// --- How a group begins, ends and begins anew ---

namespace {

constinit IdleGroupSlots slots;

WEFT_COLD void CheckGroupOptions(const GroupOptions& options) {
  WEFT_CHECK(options.workers >= 1 && options.workers <= kMaxWorkersPerGroup, "SchedulingGroup: workers must be 1..",
             kMaxWorkersPerGroup, ", is ", options.workers);
  WEFT_CHECK(options.spin_for >= SpinPolicy::kMinSpin, "SchedulingGroup: spin_for must be at least ",
             SpinPolicy::kMinSpin.count(), " ns, is ", options.spin_for.count());
}

// owner: the group.
WEFT_COLD context::StackPool::Options StackPoolOptions(const GroupOptions& options, void* owner) {
  context::StackPool::Options stacks = options.stacks;
  stacks.stack_size = options.stack_size;
  stacks.guard = options.guard_pages;
  stacks.guard_size = options.guard_size;
  stacks.node = options.node;
  stacks.owner = owner;
  return stacks;
}

WEFT_COLD PolicyDispatch MakeDispatch(const GroupOptions& options) {
  if (options.of_loop) return PolicyDispatch(std::make_unique<PolicyLoop>());
  return PolicyDispatch(options.policy,
                        {.workers = options.workers, .run_queue_size = options.run_queue_size, .node = options.node});
}

}  // namespace

constinit IdleGroups SchedulingGroup::all_idle_groups_;

WEFT_COLD SchedulingGroup::Parts::Parts(SchedulingGroup* group, const Options& options)
    : policy(MakeDispatch(options)),
      worker_slots(options.workers, options.node),
      ready_waits(options.workers, options.node, options.max_ready_wait, *options.clock),
      neighbours(options.workers, options.node),
      stacks(StackPoolOptions(options, group), options.record_stack_every) {}

WEFT_COLD SchedulingGroup::SchedulingGroup(const Options& options)
    : id_(options.id),
      // Nobody steals from a loop's. The arenas number the nodes, as the kernel's own numbers may have gaps.
      slot_(all_idle_groups_, slots, /*wanted=*/!options.of_loop, EntityPool::ArenaOn(options.node)),
      // On a machine with one node all groups share one, whatever the node's number.
      entity_arena_(EntityPool::ArenaOn(numa::HasSeveralNodes() ? options.node : -1)),
      options_(options) {
  CheckGroupOptions(options);
  parts_.emplace(this, options_);
}

WEFT_COLD std::string SchedulingGroup::Label() const {
  return name().empty() ? std::to_string(id()) : base::StrCat(id(), " (", name(), ")");
}

WEFT_COLD std::string SchedulingGroup::ThreadName(std::string_view unnamed, std::string_view suffix) const {
  constexpr std::size_t kLongest = 15;
  if (name().empty()) return std::string(unnamed.substr(0, kLongest));
  const std::string rest = base::StrCat("_", id(), suffix);
  return name().substr(0, kLongest - std::min(kLongest, rest.size())) + rest.substr(0, kLongest);
}

WEFT_COLD void SchedulingGroup::Stop() {
  attention_.SetStopping();
  for (unsigned w = 0; w < size(); ++w) Unpark(w);
}

WEFT_COLD void SchedulingGroup::Close() {
  WEFT_CHECK(stopping(), "SchedulingGroup::Close: group ", id(), " was not stopped");
  parts_.reset();
}

bool SchedulingGroup::CanReopen(const Options& options) const {
  // The poller knows the id, and the group itself lies on the node. (Only tests set another clock.)
  return options.id == options_.id && options.node == options_.node;
}

WEFT_COLD void SchedulingGroup::Reopen(const Options& options) {
  WEFT_CHECK(!parts_ && CanReopen(options), "SchedulingGroup::Reopen: group ", id(), " was not closed");
  CheckGroupOptions(options);
  options_ = options;
  parts_.emplace(this, options_);  // May throw: it stays closed.
  // relaxed, all: published by the last store.
  for (auto& stolen : stolen_out_) stolen.store(0, std::memory_order_relaxed);
  steal_requested_.store(false, std::memory_order_relaxed);
  starts_refused_.store(0, std::memory_order_relaxed);
  start_gate_.Open();
  attention_.ClearStopping();  // Publishes the parts.
}

WEFT_COLD std::size_t SchedulingGroup::TrimIdleMemory() {
  context::CheckOverflowHandler();
  const std::size_t left = parts_->stacks.Trim(options_.warm_stacks);
  return left + EntityPool::Trim();
}

WEFT_COLD std::vector<std::span<const std::byte>> SchedulingGroup::Memory() const {
  std::vector<std::span<const std::byte>> memory = policy().Memory();
  memory.push_back(std::as_bytes(std::span(this, 1)));
  memory.push_back(std::as_bytes(parts_->worker_slots.objects()));
  memory.push_back(std::as_bytes(parts_->ready_waits.recorders().objects()));
  const auto of_neighbours = neighbours().Memory();
  memory.insert(memory.end(), of_neighbours.begin(), of_neighbours.end());
  return memory;
}

}  // namespace weft::scheduling_group
