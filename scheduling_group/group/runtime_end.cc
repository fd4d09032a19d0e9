// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/runtime_end.h"

#include <atomic>
#include <new>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

constinit DrainWaiter waiter;  // Has no destructor.

constinit std::atomic<std::size_t> lost{0};
constinit std::atomic<std::uint64_t> runtimes_that_left_some{0};

// Never too few, and exact (EP3) where no fiber of a loop starts or ends meanwhile. A loop looks for the waiter, too.
std::size_t LiveFibersOutsideOfLoops() {
  const std::size_t started = LoopGroups::FibersStarted();
  const std::size_t live = EntityPool::LiveFibers();
  return live - started + LoopGroups::FibersFinished();
}

}  // namespace

bool WaitUntilNoFibers(Deadline deadline, std::size_t unfinished) {
  return waiter.Wait(deadline, [=] { return LiveFibersOutsideOfLoops() <= unfinished; });
}

void TellDrainWaiter() noexcept { waiter.Tell(); }

void LostFibers::Add(std::size_t unfinished) noexcept {
  lost.fetch_add(unfinished, std::memory_order_relaxed);
  // release: the groups' marks. Pairs with the acquire in runtimes().
  runtimes_that_left_some.fetch_add(1, std::memory_order_release);
}

std::uint64_t LostFibers::runtimes() noexcept { return runtimes_that_left_some.load(std::memory_order_acquire); }

bool LostFibers::Has(const FiberEntity* fiber) noexcept {
  if (!Any()) return false;
  const SchedulingGroup* const group = fiber->group();
  return group != nullptr && group->abandoned();
}

WEFT_COLD void LostFibers::Fail(const char* waiter, const FiberEntity* fiber) {
  Fail(waiter, DescribeFiber(fiber->name(), fiber->id()));
}

WEFT_COLD void LostFibers::Fail(const char* waiter, const std::string& what_it_waits_for) {
  const std::string line =
      base::StrCat(waiter, ": ", what_it_waits_for,
                   " had not ended when the runtime was terminated, and never will: stop it before "
                   "TerminateRuntime()");
  if (!base::IsInExit()) WEFT_FATAL(line);
  WEFT_LOG(ERROR, line);
}

WEFT_COLD void LostFibers::WarnOfWait() noexcept {
  static constinit std::atomic<bool> has_warned{false};
  if (!AllGroups().empty() || has_warned.exchange(true, std::memory_order_relaxed)) return;
  try {
    WEFT_LOG(WARNING, "a thread waits without a deadline, and no runtime runs: if it waits for one of the ",
             lost.load(std::memory_order_relaxed),
             " fibers that had not ended when it was terminated, it waits for ever");
  } catch (const std::bad_alloc&) {
    // No memory for the line.
  }
}

}  // namespace weft::scheduling_group
