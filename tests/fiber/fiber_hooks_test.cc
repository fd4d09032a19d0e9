// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_hooks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/context/switch/context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/testing/patience.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class FiberHooksTest : public InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, FiberHooksTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(FiberHooksTest, StopHooksRunInTheFiberInReverseOrderBeforeItsJoinReturns) {
  std::vector<std::string> seen;
  std::uint64_t id = 0;
  std::vector<std::uint64_t> ids;
  Fiber({.name = "stopping"}, [&] {
    id = GetFiberId();
    for (const char* name : {"first", "second", "third"}) {
      OnFiberStop([&, name] {
        EXPECT_EQ(GetFiberName(), "stopping");
        ids.push_back(GetFiberId());
        seen.emplace_back(name);
      });
    }
    FiberYield();
    EXPECT_EQ(seen.size(), 0U);
  }).Join();
  EXPECT_EQ(seen, (std::vector<std::string>{"third", "second", "first"}));
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{id, id, id}));
}

TEST_P(FiberHooksTest, AStopHookMayWaitAndSetAnother) {
  FiberEvent go_on;
  std::vector<int> seen;
  Fiber fiber([&] {
    OnFiberStop([&] { seen.push_back(3); });
    OnFiberStop([&] {
      FiberSleepFor(1ms);
      go_on.Wait();
      seen.push_back(1);
      OnFiberStop([&] { seen.push_back(2); });
    });
  });
  EXPECT_FALSE(fiber.Join(5ms));
  go_on.Set();
  fiber.Join();
  EXPECT_EQ(seen, (std::vector<int>{1, 2, 3}));
}

struct Told {
  ~Told() {
    if (log != nullptr) log->push_back(name);
  }
  std::vector<std::string>* log = nullptr;
  std::string name;
};

TEST_P(FiberHooksTest, StopHooksAndFiberLocalsEndInReverseOrder) {
  static FiberLocal<Told> older;
  static FiberLocal<Told> younger;
  std::vector<std::string> log;
  Fiber([&] {
    older->log = &log;
    older->name = "older";
    OnFiberStop([&] {
      EXPECT_EQ(older->name, "older");
      log.emplace_back("hook");
    });
    younger->log = &log;
    younger->name = "younger";
  }).Join();
  EXPECT_EQ(log, (std::vector<std::string>{"younger", "hook", "older"}));
}

TEST_P(FiberHooksTest, WhatAStopHookOwnsIsDestroyedOnce) {
  auto owned = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = owned;
  std::atomic<int> runs{0};
  FiberLatch ended(100);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, owned]() mutable {
      OnFiberStop([&, owned = std::move(owned)] {
        runs += *owned;
        ended.CountDown();
      });
    }));
  }
  owned.reset();
  ended.Wait();
  EXPECT_EQ(runs, 100);
  while (!watched.expired()) std::this_thread::yield();  // The last hook is destroyed after its call.
}

// The other fiber ends a wait when it has seen the hook run: before the waiter has left, or after.
TEST_P(FiberHooksTest, YieldHooksRunBeforeEachWaitOfTheirFiberOnly) {
  std::atomic<int> yields{0};
  std::atomic<int> waits{0};  // that have been ended
  FiberEvent sole;
  FiberSemaphore queued(0);
  Fiber other([&] {
    for (int wait = 0; wait < 20; ++wait) {
      while (yields == wait) FiberYield();
      ++waits;
      if (wait % 2 == 0) {
        sole.Set();
      } else {
        queued.Release();
      }
    }
  });
  Fiber([&] {
    const std::uint64_t id = GetFiberId();
    OnFiberYield([&] { EXPECT_EQ(GetFiberId(), id); });
    OnFiberYield([&] {
      ++yields;
      context::ThisThreadErrno() = EINVAL;
    });
    EXPECT_EQ(yields, 0);
    for (int wait = 0; wait < 20; ++wait) {
      context::ThisThreadErrno() = wait;
      if (wait % 2 == 0) {
        sole.Wait();
        sole.Reset();
      } else {
        EXPECT_TRUE(queued.Acquire(1h));
      }
      EXPECT_EQ(yields, wait + 1);
      EXPECT_EQ(context::ThisThreadErrno(), wait) << "a hook's error";
    }
    const int before = yields;
    sole.Set();
    sole.Wait();  // It need not wait.
    EXPECT_EQ(yields, before);
    FiberYield();
    EXPECT_EQ(yields, before + 1);
  }).Join();
  other.Join();
  EXPECT_EQ(waits, 20);
  const int at_its_end = yields;
  Fiber([] { FiberYield(); }).Join();
  EXPECT_EQ(yields, at_its_end);
  // Switches are as fast as before.
  for (const auto* group : scheduling_group::AllGroups()) EXPECT_FALSE(group->needs_attention());
}

// The wait has had its look at the cancellation, and the walk finds nothing to do: a scope of the hook hides the other
// one, or is cancelled too. Such a cancellation was lost.
void ExpectCancelledWhileAHookRuns(const std::function<void(const std::function<void()>&, CancelScope&)>& in_hook) {
  std::atomic<int> step{0};
  CancelScope scope(1h);
  std::thread canceller([&] {
    while (step != 1) std::this_thread::yield();
    EXPECT_TRUE(scope.Cancel());
    step = 2;
  });
  Fiber([&] {
    OnFiberYield([&] {
      if (step != 0) return;
      in_hook(
          [&] {
            step = 1;
            while (step != 2) std::this_thread::yield();
          },
          scope);
    });
    EXPECT_FALSE(scope.Run([&] {
      FiberEvent never;
      EXPECT_FALSE(never.Wait(testing::kSoon)) << "it was cancelled";
      ADD_FAILURE() << "the cancellation was lost";
    }));
  }).Join();
  canceller.join();
}

TEST_P(FiberHooksTest, ACancellationMeanwhileIsNotLostBehindAShieldOfTheHook) {
  ExpectCancelledWhileAHookRuns([](const auto& cancel, CancelScope&) { Shielded(cancel); });
}

TEST_P(FiberHooksTest, ACancellationMeanwhileIsNotLostBesideAScopeOfTheHook) {
  ExpectCancelledWhileAHookRuns([](const auto& cancel, CancelScope&) {
    CancelScope own;
    own.Cancel();
    static_cast<void>(own.Run(cancel));
  });
}

TEST_P(FiberHooksTest, AYieldAtTheEndOfATimeSliceIsOne) {
  Fiber([&] {
    int yields = 0;
    OnFiberYield([&] { ++yields; });
    FiberMutex mutex;
    while (!scheduling_group::TimeSliceIsOver()) {
    }
    EXPECT_EQ(yields, 0);
    for (int i = 0; i < 1'000'000'000 && yields == 0; ++i) {
      const std::scoped_lock lock(mutex);
    }
    EXPECT_GE(yields, 1);
  }).Join();
}

TEST(FiberHooksDeathTest, AHookThatYieldsEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RuntimeOf runtime(Shape{1, 1});
        Fiber([] {
          OnFiberYield([] { FiberYield(); });
          FiberYield();
        }).Join();
      },
      "OnFiberYield: a hook waits or yields");
}

TEST(FiberHooksDeathTest, AHookThatSetsAnotherOneEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RuntimeOf runtime(Shape{1, 1});
        Fiber([] {
          OnFiberYield([] { OnFiberYield([] {}); });
          FiberYield();
        }).Join();
      },
      "OnFiberYield: called by a hook");
}

TEST(FiberHooksDeathTest, AnExceptionThatLeavesAHookEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RuntimeOf runtime(Shape{1, 1});
        Fiber([] {
          OnFiberYield([] { throw std::runtime_error("on purpose"); });
          FiberYield();
        }).Join();
      },
      "on purpose");
}

TEST(FiberHooksDeathTest, HooksAreForFibers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(OnFiberStop([] {}), "OnFiberStop: the caller is not a fiber");
  EXPECT_DEATH(OnFiberYield([] {}), "OnFiberYield: the caller is not a fiber");
}

TEST(FiberHooksDeathTest, AnEmptyHookIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RuntimeOf runtime(Shape{1, 1});
        Fiber([] { OnFiberStop(nullptr); }).Join();
      },
      "OnFiberStop: the hook is empty");
}

TEST(FiberHooksInALoop, LeavingForOthersOfTheLoopIsAYield) {
  FiberLoop loop;
  loop.AddTask([&] {
    int yields = 0;
    OnFiberYield([&] { ++yields; });
    FiberYield();
    EXPECT_EQ(yields, 1);
    loop.RunInMainContext([] {});
    EXPECT_EQ(yields, 2);
    EXPECT_TRUE(loop.AddTaskEager([] {}));
    EXPECT_EQ(yields, 3);
    FiberSleepFor(1ms);
    EXPECT_EQ(yields, 4);
  });
  loop.Run();
}

}  // namespace
}  // namespace weft::fiber
