// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Threads call every function for any thread while the runtime starts and ends (RT2 and RT3 in
// fiber/runtime/runtime_instance.h).

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <thread>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/runtime.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/stress/any_time_calls.h"

namespace weft::fiber {
namespace {

// A sanitizer makes a restart with its callers ten times as long. WEFT_TEST_RESTARTS=500: as many.
int Restarts() {
  const char* const wanted = std::getenv("WEFT_TEST_RESTARTS");
  return wanted != nullptr ? std::atoi(wanted) : WEFT_TSAN || WEFT_ASAN ? 60 : 500;
}

TEST(AnyTime, ThreadsStartWakeSetTimersAndAskWhileTheRuntimeRestarts) {
  { const RuntimeOf first(Shape{1, 1}); }
  {
    const AnyTimeCallers callers(3);
    const int restarts = Restarts();
    for (int i = 0; i < restarts; ++i) {
      StartRuntime(OptionsOf({.workers = 1 + i % 2, .groups = 1 + i / 2 % 2}));
      // Ends sometimes at once, sometimes with much under way.
      const std::uint64_t before = callers.rounds();
      if (i % 4 != 0) {
        while (callers.rounds() == before) std::this_thread::yield();
      }
      ASSERT_EQ(TerminateRuntime(), std::size_t{0}) << "restart " << i;
      // More may have run: a caller counts what its start has said after it.
      const std::uint64_t accepted = TheCounts().accepted.load();
      ASSERT_GE(TheCounts().run.load(), accepted) << "a start said true, and nothing ran";
    }
    // And without one.
    const std::uint64_t before = callers.rounds();
    while (callers.rounds() < before + 2) std::this_thread::yield();
  }
  EXPECT_EQ(TheCounts().run.load(), TheCounts().accepted.load());
  EXPECT_GT(TheCounts().refused.load(), 0U);
  EXPECT_GT(TheCounts().woken.load(), 0U);
}

}  // namespace
}  // namespace weft::fiber
