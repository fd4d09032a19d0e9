// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/unfinished_fibers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/base/cpu.h"
#include "weft/base/log.h"
#include "weft/context/stack_registry.h"
#include "weft/scheduling_group/describe_fiber.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/fiber_state.h"
#include "weft/scheduling_group/scheduling_group.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::fiber::detail {

namespace {

using scheduling_group::EntityPool;
using scheduling_group::FiberEntity;
using scheduling_group::FiberPhase;
using scheduling_group::SchedulingGroup;

// More would hide other log lines.
constexpr std::size_t kMostLines = 100;

bool IsOneOf(const SchedulingGroup* group, const std::vector<SchedulingGroup*>& groups) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

template <class Visit>
void ForEachLiving(const std::vector<SchedulingGroup*>& groups, Visit visit) {
  EntityPool::ForEach([&](FiberEntity* fiber) {
    if (fiber->state().Load() != FiberPhase::kDead && IsOneOf(fiber->group(), groups)) visit(fiber);
  });
}

const char* WhatItDoes(const FiberEntity& fiber) {
  switch (fiber.state().Load()) {
    case FiberPhase::kReady:
      return fiber.has_stack() ? "is queued" : "is queued and has never run";
    case FiberPhase::kParking:
    case FiberPhase::kNotified:
    case FiberPhase::kParked:
      return "is parked: it waits or sleeps";
    case FiberPhase::kRunning:
      return "blocks its thread, or computes";
    case FiberPhase::kDead:
      break;
  }
  return "is in an unknown state";
}

// The leak checker does not search fibers' stacks by itself.
void ShowStackToLeakChecker([[maybe_unused]] const FiberEntity& fiber) {
#if WEFT_ASAN
  const FiberPhase phase = fiber.state().Load();
  // acquire: the stack pointer that a parked one has saved. Pairs with the release in OnSwitchedOut().
  std::atomic_thread_fence(std::memory_order_acquire);
  const char* low = static_cast<const char*>(fiber.context.saved_stack_pointer());
  context::StackBounds bounds;
  if (!fiber.has_stack() || !context::FindStack(low, &bounds)) return;
  // Nobody knows the stack pointer of one that is on its stack, also on its way to park, or may soon be.
  if (phase != FiberPhase::kParked) low = bounds.low;
  __lsan_register_root_region(low, static_cast<std::size_t>(bounds.high - low));
#endif
}

#if WEFT_ASAN
// Fibers may run, start and end meanwhile: showing too much hides a leak but invents none. (One that is woken from now
// on may allocate and keep it below what was shown: that is reported.)
void ShowAllStacksToLeakChecker() {
  EntityPool::ForEach([](FiberEntity* fiber) {
    if (fiber->state().Load() != FiberPhase::kDead) ShowStackToLeakChecker(*fiber);
  });
}
#endif

}  // namespace

void PrepareForLeakChecker() {
#if WEFT_ASAN
  // After the checker in registration, hence before it at exit: it registered when the program began.
  static_cast<void>(std::atexit(&ShowAllStacksToLeakChecker));
#endif
}

std::string DescribeFiber(const FiberEntity& fiber) {
  return scheduling_group::DescribeFiber(fiber.name(), fiber.id());
}

void WarnOfFibersAlive(const std::vector<SchedulingGroup*>& groups, std::chrono::milliseconds waited) {
  std::size_t queued = 0;
  std::size_t parked = 0;
  std::vector<std::uint64_t> running;
  ForEachLiving(groups, [&](const FiberEntity* fiber) {
    const FiberPhase phase = fiber->state().Load();
    if (phase == FiberPhase::kRunning) {
      running.push_back(fiber->id());
    } else {
      ++(phase == FiberPhase::kReady ? queued : parked);
    }
  });
  WEFT_LOG(ERROR, "TerminateRuntime: ", waited.count(), " ms have passed; fibers parked: ", parked,
           ", queued: ", queued, ", running: ", running.size());
  for (const std::uint64_t id : running) {
    WEFT_LOG(ERROR, "TerminateRuntime: waits for the fiber with id ", id, " to suspend or end");
  }
}

std::string ListFibersAlive(SchedulingGroup* group) {
  constexpr std::size_t kMostNames = 10;
  std::string list;
  std::size_t count = 0;
  ForEachLiving({group}, [&](const FiberEntity* fiber) {
    if (++count > kMostNames) return;
    list += (count == 1 ? "" : ", ") + DescribeFiber(*fiber) + " " + WhatItDoes(*fiber);
  });
  if (count > kMostNames) list += " and " + std::to_string(count - kMostNames) + " more";
  return list;
}

std::size_t ReportUnfinishedFibers(const std::vector<SchedulingGroup*>& groups) {
  std::size_t count = 0;
  ForEachLiving(groups, [&](const FiberEntity* fiber) {
    ShowStackToLeakChecker(*fiber);
    if (++count > kMostLines) return;
    WEFT_LOG(ERROR, "TerminateRuntime: unfinished: ", DescribeFiber(*fiber), " ", WhatItDoes(*fiber));
  });
  if (count > kMostLines) WEFT_LOG(ERROR, "TerminateRuntime: unfinished: and ", count - kMostLines, " more");
  return count;
}

}  // namespace weft::fiber::detail
