// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/background_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"

#include "fiber/helper_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class BackgroundTasksTest : public InFiberAndThread {};

TEST_P(BackgroundTasksTest, ItsDestructorWaitsForAllTasks) {
  InBoth([] {
    std::atomic<int> ended{0};
    FiberEvent go;
    {
      BackgroundTasks tasks;
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(tasks.Start([&] {
          go.Wait();
          for (int j = 0; j < 10; ++j) FiberYield();
          ++ended;
        }));
      }
      EXPECT_EQ(tasks.Count(), 20u);
      go.Set();
    }
    EXPECT_EQ(ended, 20);
  });
}

TEST_P(BackgroundTasksTest, AWaitEndsWhenWhatTheTasksHeldIsDestroyed) {
  InBoth([] {
    BackgroundTasks tasks;
    auto held = std::make_shared<int>(1);
    for (int round = 0; round < 50; ++round) {
      for (int i = 0; i < 4; ++i) ASSERT_TRUE(tasks.Start([held] { FiberYield(); }));
      tasks.Wait();
      ASSERT_EQ(held.use_count(), 1);
      ASSERT_EQ(tasks.Count(), 0u);
    }
  });
}

TEST_P(BackgroundTasksTest, AWaitEndsNotBeforeADestructorThatSuspends) {
  struct SlowToGo {
    void operator()(std::atomic<bool>* gone) const {
      for (int i = 0; i < 20; ++i) FiberYield();
      *gone = true;
    }
  };
  InBoth([] {
    std::atomic<bool> gone{false};
    BackgroundTasks tasks;
    ASSERT_TRUE(tasks.Start([held = std::unique_ptr<std::atomic<bool>, SlowToGo>(&gone)] {}));
    tasks.Wait();
    EXPECT_TRUE(gone);
  });
}

TEST_P(BackgroundTasksTest, AWaitEndsAtItsDeadline) {
  InBoth([] {
    FiberEvent go;
    BackgroundTasks tasks;
    EXPECT_TRUE(tasks.Wait(0ms)) << "there is none";
    ASSERT_TRUE(tasks.Start([&] { go.Wait(); }));
    EXPECT_FALSE(tasks.Wait(2ms));
    EXPECT_FALSE(tasks.Wait(0ms));
    go.Set();
    EXPECT_TRUE(tasks.Wait(30s));
  });
}

// By the test clock, which moves when all wait: whoever is not told sees its deadline pass.
TEST(BackgroundTasks, AllWhoWaitAreTold) {
  const TestClock clock;
  RunAsFiber([&] {
    const auto begin = FiberClock::now();
    BackgroundTasks tasks;
    FiberEvent go;
    ASSERT_TRUE(tasks.Start([&] { go.Wait(); }));
    BackgroundTasks waiters;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(waiters.Start([&] { EXPECT_TRUE(tasks.Wait(1h)); }));
    }
    FiberSleepFor(1ms);  // They wait.
    go.Set();
    waiters.Wait();
    EXPECT_EQ(FiberClock::now() - begin, 1ms);
  });
}

// A Wait() that returns nothing promises that none is left, also where a limit ends other waits.
TEST(BackgroundTasks, NoLimitEndsAWaitForAllWhileTheStackUnwinds) {
  RunAsFiber([] {
    BackgroundTasks tasks;
    std::atomic<bool> ended{false};
    struct WaitsAtItsEnd {
      ~WaitsAtItsEnd() {
        EXPECT_TRUE(ShieldedFor(1ms, [this] {
          EXPECT_FALSE(tasks.Wait(10s));
          EXPECT_FALSE(ended);
          go.Set();
          tasks.Wait();
          EXPECT_TRUE(ended);
        }));
      }
      BackgroundTasks& tasks;
      std::atomic<bool>& ended;
      FiberEvent& go;
    };
    FiberEvent go;
    ASSERT_TRUE(tasks.Start([&] {
      go.Wait();
      FiberSleepFor(2ms);
      ended = true;
    }));
    try {
      const WaitsAtItsEnd waits{tasks, ended, go};
      throw std::runtime_error("unwinds");
    } catch (const std::runtime_error&) {
    }
    EXPECT_TRUE(ended);
  });
}

TEST_P(BackgroundTasksTest, TasksStartTasks) {
  InBoth([] {
    std::atomic<int> ran{0};
    BackgroundTasks tasks;
    const std::function<void(int)> grow = [&](int depth) {
      ++ran;
      if (depth == 0) return;
      for (int i = 0; i < 2; ++i) EXPECT_TRUE(tasks.Start([&grow, depth] { grow(depth - 1); }));
    };
    ASSERT_TRUE(tasks.Start([&] { grow(6); }));
    tasks.Wait();
    EXPECT_EQ(ran, 127);
  });
}

TEST_P(BackgroundTasksTest, NoneStartsAfterClose) {
  InBoth([] {
    FiberEvent go;
    std::atomic<bool> ended{false};
    BackgroundTasks tasks;
    ASSERT_TRUE(tasks.Start([&] {
      go.Wait();
      EXPECT_FALSE(tasks.Start([] { ADD_FAILURE() << "it is closed"; }));
      ended = true;
    }));
    tasks.Close();
    tasks.Close();
    auto held = std::make_shared<int>(1);
    EXPECT_FALSE(tasks.Start([held] { ADD_FAILURE() << "it is closed"; }));
    EXPECT_EQ(held.use_count(), 1);
    EXPECT_EQ(tasks.Count(), 1u) << "what runs goes on";
    go.Set();
    tasks.Wait();
    EXPECT_TRUE(ended);
  });
}

TEST_P(BackgroundTasksTest, ItMayBeDestroyedWhileTheLastTaskLeaves) {
  InBoth([] {
    for (int round = 0; round < 200; ++round) {
      auto tasks = std::make_unique<BackgroundTasks>();
      ASSERT_TRUE(tasks->Start([] {}));
      if (round % 2 == 0) tasks->Wait();
      tasks.reset();
    }
  });
}

WEFT_INSTANTIATE_FEW_SHAPES(BackgroundTasksTest);

TEST(BackgroundTasks, ATaskThatIsRefusedIsNotWaitedFor) {
  const RuntimeOf runtime(Shape{1, 1});
  BackgroundTasks tasks;
  auto held = std::make_shared<int>(1);
  {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(tasks.Start([held] {}));
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(tasks.Count(), 0u);
  EXPECT_TRUE(tasks.Start([held] {}));
}

TEST(BackgroundTasks, ATaskWhoseCopyThrowsIsNotWaitedFor) {
  struct ThrowsWhenCopied {
    ThrowsWhenCopied() = default;
    ThrowsWhenCopied(const ThrowsWhenCopied&) { throw std::runtime_error("copy"); }
    void operator()() const {}
  };
  const RuntimeOf runtime(Shape{1, 1});
  BackgroundTasks tasks;
  const ThrowsWhenCopied f;
  EXPECT_THROW(static_cast<void>(tasks.Start(f)), std::runtime_error);
  EXPECT_EQ(tasks.Count(), 0u);
}

TEST(BackgroundTasks, AnExceptionIsLoggedAndEndsItsTaskOnly) {
  const RuntimeOf runtime(Shape{2, 1});
  const LoggedLines lines;
  std::atomic<int> ended{0};
  int started = 0;
  const auto has = [&](const char* text) { return lines.text().find(text) != std::string::npos; };
  const auto faulty_is_logged = [&] { return has("the task faulty threw: no rows"); };
  const auto odd_is_logged = [&] { return has("the task odd threw: an exception that is no std::exception"); };
  {
    BackgroundTasks tasks;
    const Deadline limit = 10s;
    Until([&] {  // A line a second at most.
      const bool odd = faulty_is_logged();
      EXPECT_TRUE(tasks.Start({.name = odd ? "odd" : "faulty"}, [odd] {
        if (odd) throw 1;
        throw std::runtime_error("no rows");
      }));
      EXPECT_TRUE(tasks.Start([&] { ++ended; }));
      ++started;
      tasks.Wait();
      return odd_is_logged() || limit.expired();
    });
  }
  EXPECT_TRUE(faulty_is_logged());
  EXPECT_TRUE(odd_is_logged());
  EXPECT_EQ(ended, started);
}

TEST(BackgroundTasksDeathTest, AnEmptyFunctionIsNoTask) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  BackgroundTasks tasks;
  EXPECT_DEATH(static_cast<void>(tasks.Start(std::function<void()>())), "BackgroundTasks::Start");
}

}  // namespace
}  // namespace weft::fiber
