// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/testing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/in_child.h"
#include "weft/tests/observe/threads_are_seen.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

class RunAsFiberTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  void SetUp() override {
    if (!SleepIsSeen()) GTEST_SKIP() << "of no thread is it known that it sleeps";
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, RunAsFiberTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}),
                         &fiber::NameOf);

TEST_P(RunAsFiberTest, FailsWhereItWouldHang) {
  InChild([] {
    const fiber::RuntimeOf runtime(GetParam());
    RunAsFiber([] { FiberSleepFor(2 * fiber::testing_detail::kLookForDeadlockEvery); });
    LeaveChild();
  });
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(GetParam());
        FiberEvent event;
        RunAsFiber([&] { event.Wait(); });
      },
      "RunAsFiber: fibers wait for ever");
}

// In any build.
TEST(RunAsFiberDeadEnd, FailsWhereFibersWaitInACircle) {
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
        FiberMutex mutex;
        RunAsFiber([&] {
          const std::scoped_lock lock(mutex);
          FiberScope scope;
          EXPECT_TRUE(scope.Spawn([] { FiberSleepFor(1000h); }));  // A timer is set.
          EXPECT_TRUE(scope.Spawn([&] { const std::scoped_lock wanted(mutex); }));
          scope.Wait();
        });
      },
      "2 fibers wait for each other in a cycle");
}

// As without looks: not for ever.
TEST(RunAsFiberDeadEnd, FailsWhereTheRuntimeEnds) {
  EXPECT_DEATH(
      {
        RuntimeOptions options = fiber::OptionsOf({1, 1});
        options.terminate_timeout = 1ms;
        StartRuntime(options);
        std::atomic<bool> runs{false};
        std::thread ends([&] {
          while (!runs) std::this_thread::yield();
          TerminateRuntime();
        });
        RunAsFiber([&] {
          runs = true;
          FiberSleepFor(1000h);
        });
      },
      "Join");
}

TEST(RunAsFiberDeadEnd, LooksTakeATenthOfACpuAtMost) {
  using fiber::testing_detail::kLookForDeadlockEvery;
  using fiber::testing_detail::PauseAfterLook;
  EXPECT_EQ(PauseAfterLook(1ms), kLookForDeadlockEvery);
  EXPECT_EQ(PauseAfterLook(3s), 30s);
}

}  // namespace
}  // namespace weft::observe
