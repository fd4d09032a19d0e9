// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A test program as users write it: with WEFT_TEST_MAIN(), the runtime runs for all tests.

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/testing.h"

namespace weft {
namespace {

TEST(TestMain, TheRuntimeRuns) {
  ASSERT_TRUE(IsRuntimeRunning());
  bool ran = false;
  Fiber([&] { ran = true; }).Join();
  EXPECT_TRUE(ran);
}

TEST(TestMain, RunAsFiberUsesIt) {
  RunAsFiber([] { EXPECT_TRUE(IsRunningInFiberWorker()); });
  EXPECT_TRUE(IsRuntimeRunning());
}

// CTest calls this program a second time with --fiber_concurrency_hint=3.
TEST(TestMain, FlagsAreParsed) {
  if (gflags::GetCommandLineFlagInfoOrDie("fiber_concurrency_hint").is_default) GTEST_SKIP() << "no flag was given";
  EXPECT_EQ(GetConcurrencyHint(), 3U);
}

}  // namespace
}  // namespace weft

WEFT_TEST_MAIN()
