// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/start/start_fiber.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string_view>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/str_cat.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/group_stacks.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft {

namespace {

const char* TextOf(StartRefusal why) {
  switch (why) {
    case StartRefusal::kNone:
      return "it was not";
    case StartRefusal::kNoRuntime:
      return "the runtime has ended or is going down";
    case StartRefusal::kOverloaded:
      return "the runtime is overloaded";
    case StartRefusal::kQueueFull:
      return "too many fibers are queued";
    case StartRefusal::kNoMemory:
      return "memory is exhausted";
  }
  return "corrupt";
}

}  // namespace

FiberNotStarted::FiberNotStarted(std::string_view name, StartRefusal why)
    : std::runtime_error(base::StrCat("the start of fiber ",
                                      name.empty() ? base::kUnnamedFiber : base::StrCat("'", name, "'"),
                                      " was refused: ", TextOf(why))),
      name_(name),
      why_(why) {}
FiberNotStarted::~FiberNotStarted() = default;

}  // namespace weft

namespace weft::fiber::detail {

using scheduling_group::DiscardFiber;
using scheduling_group::FiberEntity;
using scheduling_group::GroupStacks;
using scheduling_group::SchedulingGroup;

// --- Refusals ---

namespace {

// Each RefuseFiberStarts adds one to `refusals`; this bit refuses plain threads.
constexpr std::uint32_t kOutsidersRefused = std::uint32_t{1} << 31;

// There is no group. A test that refuses all starts (RefuseFiberStarts) need not start a runtime.
void CheckMayRefuse(const char* caller) {
  if ((refusals.load(std::memory_order_relaxed) & ~kOutsidersRefused) != 0) return;  // As in PlanStart(caller).
  scheduling_group::CheckMayBeRefused(caller);
}

}  // namespace

std::atomic<std::uint32_t> refusals{0};

bool StartIsRefused(const SchedulingGroup* group) {
  const std::uint32_t found = refusals.load(std::memory_order_relaxed);  // As in PlanStart().
  if ((found & ~kOutsidersRefused) != 0) return true;
  if (found == 0 || group == nullptr || group->of_loop()) return false;  // A FiberLoop is none of the runtime's.
  // Nor are its fibers, which the runtime's end does not wait for. A fiber whose workers have been told to stop is
  // refused here, before there is a new fiber that would count as unfinished for a moment.
  const scheduling_group::WorkerBase* const caller = scheduling_group::CurrentWorker();
  return caller == nullptr || caller->of_loop || caller->group->stopping();
}

// relaxed: the thread that forbids also starts, or the two synchronise.
void ForbidStarts() { refusals.fetch_add(1, std::memory_order_relaxed); }
void AllowStarts() { refusals.fetch_sub(1, std::memory_order_relaxed); }

void RefuseOutsiders(bool refuse) {
  // relaxed: TerminateRuntime() waits for all sections then (ST3).
  if (refuse) {
    refusals.fetch_or(kOutsidersRefused, std::memory_order_relaxed);
  } else {
    refusals.fetch_and(~kOutsidersRefused, std::memory_order_relaxed);
  }
}

// --- Plan ---

SchedulingGroup* FindAnyGroup(const char* caller) {
  SchedulingGroup* const group = scheduling_group::NearestGroup();
  if (WEFT_UNLIKELY(group == nullptr)) CheckMayRefuse(caller);
  return group;
}

namespace {

// Smaller ones overflow in the first call into libc.
constexpr std::size_t kMinStackSize = 16 * 1024;
constexpr std::size_t kMaxStackSize = GroupStacks::kMaxStackSize;

// wanted: of SchedulingGroupNamed(). The caller's own group if it has that name.
SchedulingGroup* FindNamed(const char* caller, std::span<SchedulingGroup* const> groups, SchedulingGroup* current,
                           std::size_t wanted) {
  const std::size_t first = wanted - scheduling_group::kNamedGroups;
  WEFT_CHECK(first < groups.size(), caller, ": there is no scheduling group ", wanted,
             ": what SchedulingGroupNamed() returns is good until its runtime ends");
  const std::span<SchedulingGroup* const> named = scheduling_group::PeersOf(groups[first]);
  if (std::find(named.begin(), named.end(), current) != named.end()) return current;
  return scheduling_group::NextPeerOf(groups[first]);
}

// nullptr: no runtime runs, or the caller's has ended. Aborts if there is one without such a group.
SchedulingGroup* FindGroup(const char* caller, std::size_t wanted) {
  SchedulingGroup* const current = scheduling_group::CurrentGroup();
  if (current != nullptr && current->stopping()) return nullptr;  // Left behind when its runtime ended.
  if (wanted == kNearestSchedulingGroup && current != nullptr) return current;
  if (current != nullptr && current->of_loop() && wanted == static_cast<std::size_t>(current->id())) return current;
  const std::span<SchedulingGroup* const> groups = scheduling_group::AllGroups();
  if (groups.empty()) {
    if (current != nullptr && current->of_loop() && wanted == kUnspecifiedSchedulingGroup) return current;
    CheckMayRefuse(caller);
    return nullptr;
  }
  if (wanted == kNearestSchedulingGroup) return scheduling_group::NearestGroup();
  if (wanted == kUnspecifiedSchedulingGroup) return scheduling_group::NextGroup();
  if (wanted >= scheduling_group::kNamedGroups) return FindNamed(caller, groups, current, wanted);
  WEFT_CHECK(wanted < groups.size(), caller, ": there is no scheduling group ", wanted, ", only 0 to ",
             groups.size() - 1);
  return groups[wanted];
}

// Of a name. A plain thread has no nearest group.
bool WantsAnyGroup(std::size_t wanted) {
  if (wanted == kNearestSchedulingGroup) return scheduling_group::CurrentWorker() == nullptr;
  return wanted >= scheduling_group::kNamedGroups;
}

}  // namespace

void CheckAttributes(const char* caller, const FiberAttributes& attributes) {
  WEFT_CHECK(attributes.stack_size == 0 || attributes.stack_size >= kMinStackSize, caller, ": a stack of ",
             attributes.stack_size, " bytes is too small, ", kMinStackSize, " is the least");
  WEFT_CHECK(attributes.stack_size <= kMaxStackSize, caller, ": a stack of ", attributes.stack_size,
             " bytes is too large, ", kMaxStackSize, " is the most");
  WEFT_CHECK(attributes.stack_guard_size == 0 || (attributes.stack_guard_size >= GroupStacks::kMinGuardSize &&
                                                  attributes.stack_guard_size <= GroupStacks::kMaxGuardSize),
             caller, ": a stack guard of ", attributes.stack_guard_size, " bytes, must be in ",
             GroupStacks::kMinGuardSize, "..", GroupStacks::kMaxGuardSize);
  WEFT_CHECK(attributes.priority <= FiberEntity::kMaxPriority, caller, ": a priority of ", attributes.priority,
             ", must be in 0..", FiberEntity::kMaxPriority);
}

StartPlan PlanStart(const char* caller, const FiberAttributes& attributes) {
  CheckAttributes(caller, attributes);
  StartPlan plan;
  plan.group = FindGroup(caller, attributes.scheduling_group);
  const bool some_refused = refusals.load(std::memory_order_relaxed) != 0;  // As in PlanStart(caller).
  if (plan.group == nullptr || (WEFT_UNLIKELY(some_refused) && StartIsRefused(plan.group))) {
    plan.refusal = StartRefusal::kNoRuntime;
    return plan;
  }
  if (attributes.refuse_if_overloaded) {
    plan.group = AdmitTo(plan.group, /*any_group=*/WantsAnyGroup(attributes.scheduling_group));
    if (plan.group == nullptr) {
      plan.refusal = StartRefusal::kOverloaded;
      return plan;
    }
  }
  plan.policy = attributes.launch_policy;
  plan.options.group_local = attributes.scheduling_group_local;
  plan.options.placed = attributes.scheduling_group < scheduling_group::kNamedGroups;
  plan.options.priority = attributes.priority & FiberEntity::kMaxPriority;
  plan.options.name = attributes.name.empty() ? nullptr : attributes.name.c_str();
  plan.options.stack_size = attributes.stack_size;
  plan.options.guard_size = attributes.stack_guard_size;
  plan.options.execution_context = base::RefPtr<FiberExecutionContext>(attributes.execution_context).Leak();
  plan.context.Own(plan.options.execution_context);
  return plan;
}

void ContextReference::Release() noexcept { static_cast<FiberExecutionContext*>(context_)->Release(); }

// --- Push ---

namespace {

// A fiber without a context of its own gets its spawner's, `context`.
void Inherit(FiberEntity* fiber, FiberExecutionContext* context) {
  fiber->set_execution_context(base::RefPtr<FiberExecutionContext>(context).Leak());
}

// Dispatch makes the new fiber the next one on the caller's worker, so the caller must be a fiber of that group.
bool CanDispatchTo(const SchedulingGroup* group) {
  return scheduling_group::CurrentFiber() != nullptr && scheduling_group::CurrentGroup() == group;
}

// The group has not taken it: the runtime goes down, or there was no room for it in time.
StartRefusal Refuse(const SchedulingGroup* group, FiberEntity* fiber) {
  // A cancellation may be in its chain until it is discarded, under the lock of its word (CN4).
  DiscardFiber(fiber);
  return StartIsRefused(group) || group->stopping() ? StartRefusal::kNoRuntime : StartRefusal::kQueueFull;
}

}  // namespace

StartRefusal SubmitPlain(SchedulingGroup* group, FiberEntity* fiber) {
  if (WEFT_UNLIKELY(fiber == nullptr)) return StartRefusal::kNoMemory;
  // Not FiberExecutionContext::Current(): a fiber's is found at once.
  const FiberEntity* const spawner = scheduling_group::CurrentFiber();
  if (WEFT_UNLIKELY(spawner == nullptr) || WEFT_UNLIKELY(spawner->execution_context() != nullptr)) {
    if (FiberExecutionContext* const context = FiberExecutionContext::Current()) Inherit(fiber, context);
  }
  if (WEFT_LIKELY(group->Start(fiber))) return StartRefusal::kNone;
  return Refuse(group, fiber);
}

StartRefusal Submit(StartPlan& plan, FiberEntity* fiber) {
  if (WEFT_UNLIKELY(fiber == nullptr)) return StartRefusal::kNoMemory;
  plan.context.GiveAway();  // ST2
  FiberExecutionContext* const context = FiberExecutionContext::Current();
  if (WEFT_UNLIKELY(context != nullptr) && plan.options.execution_context == nullptr) Inherit(fiber, context);
  if (WEFT_UNLIKELY(plan.made != nullptr)) plan.made(plan.made_argument, fiber);
  if (plan.policy == Launch::Dispatch && CanDispatchTo(plan.group)) {
    scheduling_group::RunInsteadOfCurrent(fiber);
    return StartRefusal::kNone;
  }
  if (WEFT_LIKELY(plan.group->Start(fiber))) return StartRefusal::kNone;
  return Refuse(plan.group, fiber);
}

bool NewFibers::Reserve(std::size_t count) noexcept {
  try {
    fibers_.reserve(count);
  } catch (const std::exception&) {  // bad_alloc, length_error
    return false;
  }
  return true;
}

void NewFibers::DiscardAll() noexcept {
  for (FiberEntity* fiber : fibers_) DiscardFiber(fiber);
  fibers_.clear();
}

bool NewFibers::Submit(const StartPlan& plan) {
  auto* context = static_cast<FiberExecutionContext*>(plan.options.execution_context);
  if (WEFT_LIKELY(context == nullptr)) context = FiberExecutionContext::Current();
  if (WEFT_UNLIKELY(context != nullptr)) {
    for (FiberEntity* fiber : fibers_) Inherit(fiber, context);
  }
  if (!plan.group->StartBatch(fibers_.data(), fibers_.size())) return false;
  fibers_.clear();
  return true;
}

// --- A start that was refused, or cannot be ---

void ParkForGoodIfGroupStops() {
  const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  if (worker == nullptr || worker->of_loop || worker->current == nullptr || !worker->group->stopping()) return;
  scheduling_group::FiberEntity* const self = worker->current;
  scheduling_group::PrepareToPark(self);
  scheduling_group::ParkPrepared(self);
}

void ThrowNotStarted(std::string_view name, StartRefusal why) {
  ParkForGoodIfGroupStops();
  throw FiberNotStarted(name, why);
}

void FailEmptyCallable(const char* caller) { WEFT_FATAL(caller, ": the function to run is empty"); }

}  // namespace weft::fiber::detail
