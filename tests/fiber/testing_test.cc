// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/testing.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/tests/fiber/runtime_fixture.h"

using weft::fiber::RunAllTestsInRuntime;  // The last version's name.

namespace weft::fiber {
namespace {

TEST(RunAsFiber, StartsARuntimeIfNoneRunsAndEndsIt) {
  ASSERT_FALSE(IsRuntimeRunning());
  bool in_fiber = false;
  RunAsFiber([&] {
    in_fiber = IsRunningInFiberWorker();
    EXPECT_EQ(GetFiberName(), "RunAsFiber");
  });
  EXPECT_TRUE(in_fiber);
  EXPECT_FALSE(IsRuntimeRunning());
}

TEST(RunAsFiber, UsesTheRuntimeThatRuns) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 2});
  RunAsFiber([] { EXPECT_EQ(GetSchedulingGroupCount(), 2U); });
  EXPECT_TRUE(IsRuntimeRunning());
}

TEST(RunAsFiber, InAFiberCallsTheFunctionThere) {
  RunAsFiber([] {
    const std::uint64_t id = GetFiberId();
    RunAsFiber([id] { EXPECT_EQ(GetFiberId(), id); });
  });
}

TEST(RunAsFiber, ThrowsOnWhatTheFunctionThrows) {
  EXPECT_THROW(RunAsFiber([] { throw std::runtime_error("from the fiber"); }), std::runtime_error);
  EXPECT_FALSE(IsRuntimeRunning());
}

TEST(RunAsFiber, NonFatalFailuresInTheFiberFailTheTest) {
  EXPECT_NONFATAL_FAILURE_ON_ALL_THREADS(RunAsFiber([] { EXPECT_EQ(1, 2); }), "1");
}

// Fails on purpose: run by the test that follows, in a process of its own.
TEST(RunAsFiber, DISABLED_AFatalFailureInTheFiber) {
  ASSERT_NO_FATAL_FAILURE(RunAsFiber([] { FAIL() << "deep inside"; }));
  std::puts("not reached");
}

TEST(RunAsFiber, AFatalFailureInTheFiberIsOneOfTheCallersThreadToo) {
  char self[4096] = {};
  ASSERT_GT(::readlink("/proc/self/exe", self, sizeof(self) - 1), 0);
  const std::string command =
      std::string(self) +
      " --gtest_also_run_disabled_tests --gtest_filter=RunAsFiber.DISABLED_AFatalFailureInTheFiber 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string output;
  for (char buffer[256]; std::fgets(buffer, sizeof(buffer), pipe) != nullptr;) output += buffer;
  EXPECT_NE(::pclose(pipe), 0);
  EXPECT_NE(output.find("deep inside"), std::string::npos) << output;
  EXPECT_NE(output.find("RunAsFiber: a fatal failure in the fiber"), std::string::npos) << output;
  EXPECT_EQ(output.find("not reached"), std::string::npos) << output;
}

TEST(RefuseFiberStarts, RefusesWhileItLives) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  bool ran = false;
  {
    const RefuseFiberStarts refuse;
    const RefuseFiberStarts nested;
    EXPECT_FALSE(StartFiberDetached([&] { ran = true; }));
  }
  Fiber([&] {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(StartFiberDetached([&] { ran = true; }));
    EXPECT_FALSE(StartFiberDetached({.launch_policy = Launch::Dispatch}, [&] { ran = true; }));
  }).Join();
  EXPECT_FALSE(ran);
  Fiber([&] { ran = true; }).Join();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace weft::fiber
