// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/unfinished_fibers.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/scheduling_group/group/scheduling_group.h"

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

#if WEFT_ASAN
// The leak checker does not search fibers' stacks by itself. Fibers start, wake and end until the process is gone, so
// it is shown the whole of each stack that is or comes into use: too much hides a leak, but invents none.
void ShowStacksAtExit() {
  context::leak_checker_sees_new_stacks.store(true, std::memory_order_relaxed);
  EntityPool::ForEach([](FiberEntity* fiber) {
    if (fiber->state().Load() != FiberPhase::kDead && fiber->has_stack()) {
      context::ShowStackToLeakChecker(fiber->stack_top());
    }
  });
}
#endif

}  // namespace

void PrepareForLeakChecker() {
#if WEFT_ASAN
  // After the checker in registration, hence before it at exit: it registered when the program began.
  static_cast<void>(std::atexit(&ShowStacksAtExit));
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
    if (++count > kMostLines) return;
    WEFT_LOG(ERROR, "TerminateRuntime: unfinished: ", DescribeFiber(*fiber), " ", WhatItDoes(*fiber));
  });
  if (count > kMostLines) WEFT_LOG(ERROR, "TerminateRuntime: unfinished: and ", count - kMostLines, " more");
  return count;
}

}  // namespace weft::fiber::detail
