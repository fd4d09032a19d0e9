// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/test_clock.h"

#include "weft/base/report/check.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/runtime/test_clock_driver.h"
#include "weft/scheduling_group/group/driven_groups.h"

namespace weft::fiber {
namespace {

std::unique_ptr<detail::TestClockDriver> MakeDriver() {
  WEFT_CHECK(!IsRuntimeRunning(),
             "TestClock: it is made while the runtime runs, whose timers follow the steady clock: make it before "
             "StartRuntime(), or before RunAsFiber() where that starts the runtime (not under WEFT_TEST_MAIN)");
  WEFT_CHECK(scheduling_group::DrivenGroups::Borrowed() == 0,
             "TestClock: it is made while there is a FiberLoop, whose timers follow the steady clock");
  return std::make_unique<detail::TestClockDriver>();
}

}  // namespace

TestClock::TestClock() : driver_(MakeDriver()) {}

TestClock::~TestClock() {
  if (!driver_->is_current()) return;  // Of a forked child, which has no test clock.
  WEFT_CHECK(!IsRuntimeRunning(), "TestClock: it is destroyed while the runtime runs: call TerminateRuntime() before");
  WEFT_CHECK(scheduling_group::DrivenGroups::Borrowed() == 0,
             "TestClock: it is destroyed while there is a FiberLoop, whose timers follow it");
}

void TestClock::SetAutoAdvance(bool on) noexcept { driver_->SetAutoAdvance(on); }

void TestClock::AdvanceBy(std::chrono::nanoseconds by) { driver_->Advance(by); }

}  // namespace weft::fiber
