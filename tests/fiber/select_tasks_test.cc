// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/select_tasks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"

#include "fiber/helper_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class FiberSelectTest : public fiber::InFiberAndThread {};
WEFT_INSTANTIATE_FEW_SHAPES(FiberSelectTest);

int Rounds(int count) { return WEFT_TSAN || WEFT_ASAN ? count / 8 + 1 : count; }

TEST_P(FiberSelectTest, TheEndOfATaskEndsTheWait) {
  InBoth([] {
    FiberEvent let_go;
    FiberEvent never;
    FiberTask task([&] {
      let_go.Wait();
      return 7;
    });
    EXPECT_EQ(Select(OnEnd(task), OnSet(never), Otherwise()), 2U);
    EXPECT_EQ(Select(OnEnd(task), OnDeadline(1ms)), 1U);
    FiberTask setter([&] { let_go.Set(); });
    int got = 0;
    EXPECT_EQ(Select(OnSet(never), OnEnd(task, [&] { got = task.Get(); })), 1U);
    EXPECT_EQ(got, 7);
  });
}

TEST_P(FiberSelectTest, TheEndOfAFiberEndsTheWait) {
  InBoth([] {
    FiberEvent let_go;
    FiberEvent never;
    Fiber fiber([&] { let_go.Wait(); });
    EXPECT_EQ(Select(OnEnd(fiber), OnSet(never), Otherwise()), 2U);
    Fiber setter([&] { let_go.Set(); });
    EXPECT_EQ(Select(OnSet(never), OnEnd(fiber)), 1U);
    EXPECT_TRUE(fiber.Join(0s)) << "it has ended";
    setter.Join();
  });
}

// Also by an exception or a cancellation.
TEST_P(FiberSelectTest, AnEndIsAnEnd) {
  InBoth([] {
    FiberEvent never;
    FiberTask broken([]() -> int { throw std::runtime_error("broken"); });
    EXPECT_EQ(Select(OnEnd(broken), OnSet(never)), 0U);
    EXPECT_THROW(broken.Get(), std::runtime_error);
    FiberTask cancelled([] { FiberSleepFor(1h); });
    EXPECT_TRUE(cancelled.Cancel());
    EXPECT_EQ(Select(OnEnd(cancelled), OnSet(never)), 0U);
    EXPECT_THROW(cancelled.Get(), TaskCancelled);
  });
}

TEST_P(FiberSelectTest, ATaskOfAScopeIsSelected) {
  InFiber([] {
    FiberEvent never;
    FiberScope scope;
    FiberTask task = scope.SpawnTask([] {
      FiberYield();
      return 3;
    });
    EXPECT_EQ(Select(OnSet(never), OnEnd(task)), 1U);
    EXPECT_EQ(task.Get(), 3);
    scope.Wait();
  });
}

TEST_P(FiberSelectTest, AResultEndsTheWait) {
  InBoth([] {
    FiberEvent never;
    for (const bool fails : {false, true}) {
      Promise<int> promise;
      Future<int> future = promise.GetFuture();
      EXPECT_EQ(Select(OnReady(future), OnSet(never), Otherwise()), 2U);
      EXPECT_EQ(Select(OnReady(future), OnDeadline(1ms)), 1U);
      Fiber resolver([&, p = std::move(promise)]() mutable {
        if (fails) {
          p.SetException(CommonException("broken"));
        } else {
          p.SetValue(5);
        }
      });
      EXPECT_EQ(Select(OnSet(never), OnReady(future)), 1U);
      EXPECT_EQ(Select(OnReady(future), OnSet(never)), 0U) << "it is still there";
      if (fails) {
        EXPECT_TRUE(future.IsFailed());
      } else {
        EXPECT_EQ(future.Get(), 5);
      }
      resolver.Join();
    }
  });
}

// A selection that took another case has left nothing in the Future.
TEST_P(FiberSelectTest, AFutureThatWasNotTakenCanBeWaitedFor) {
  InBoth([] {
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    EXPECT_EQ(Select(OnReady(future), OnDeadline(100us)), 1U);
    Future<int> next = future.Then([](int value) { return value + 1; });
    promise.SetValue(1);
    EXPECT_EQ(next.Get(), 2);
  });
}

// The result, an item and a cancellation come at the same time. The promise's side may be late: its callback is on a
// stack that has gone if the selection does not wait for it.
TEST_P(FiberSelectTest, AResultComesWhileAnotherCaseIsTaken) {
  for (int i = 0; i < Rounds(200); ++i) {
    Promise<int> promise;
    FiberChannel<int> channel(1);
    CancelScope scope;
    int taken = 0;
    Fiber selects([&] {
      Future<int> future = promise.GetFuture();
      static_cast<void>(scope.Run([&] {
        Select(OnReady(future), OnGet(channel, [&](const ChannelItem<int>& item) { taken += item ? 1 : 0; }));
      }));
    });
    Fiber resolves([&] { promise.SetValue(1); });
    Fiber puts([&] { EXPECT_EQ(channel.TryPut(1), ChannelResult::kOk); });
    std::thread cancels([&] { scope.Cancel(); });
    selects.Join();
    resolves.Join();
    puts.Join();
    cancels.join();
    EXPECT_EQ(taken + (channel.TryGet() ? 1 : 0), 1) << "the item is lost or doubled";
  }
}

TEST_P(FiberSelectTest, TwoThatEndTogetherAreTakenOneByOne) {
  InBoth([] {
    for (int i = 0; i < Rounds(100); ++i) {
      FiberTask one([] { return 1; });
      FiberTask two([] { return 2; });
      int sum = 0;
      const std::size_t first = Select(OnEnd(one, [&] { sum += one.Get(); }), OnEnd(two, [&] { sum += two.Get(); }));
      if (first == 0) {
        Select(OnEnd(two, [&] { sum += two.Get(); }));
      } else {
        Select(OnEnd(one, [&] { sum += one.Get(); }));
      }
      ASSERT_EQ(sum, 3);
    }
  });
}

// The selection is cancelled, the tasks are not.
TEST_P(FiberSelectTest, ACancelledSelectLeavesTheTask) {
  InFiber([] {
    FiberEvent let_go;
    FiberTask task([&] {
      let_go.Wait();
      return 9;
    });
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    CancelScope scope;
    std::atomic<bool> selects{false};
    Fiber fiber([&] {
      EXPECT_FALSE(scope.Run([&] {
        selects = true;
        Select(OnEnd(task), OnReady(future));
        ADD_FAILURE() << "it returned";
      }));
    });
    fiber::Until([&] { return selects.load(); });
    EXPECT_TRUE(scope.Cancel());
    fiber.Join();
    EXPECT_FALSE(task.IsReady());
    let_go.Set();
    promise.SetValue(1);
    EXPECT_EQ(task.Get(), 9);
    EXPECT_EQ(future.Get(), 1);
  });
}

// A cancellation of the task against its selection, and of the selection against the task's end.
TEST_P(FiberSelectTest, CancellationsRaceWithTheEnd) {
  for (int i = 0; i < Rounds(100); ++i) {
    FiberTask task([] { FiberSleepFor(1h); });
    CancelScope scope;
    bool ended = false;
    Fiber selects([&] { static_cast<void>(scope.Run([&] { Select(OnEnd(task, [&] { ended = true; })); })); });
    std::thread cancels([&] { scope.Cancel(); });
    task.Cancel();
    selects.Join();
    cancels.join();
    task.Wait();
    if (ended) {
      EXPECT_TRUE(task.IsReady());
    }
  }
}

TEST(FiberSelectDeathTest, ATaskThatSelectsItsOwnEndIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        FiberEvent has_handle;
        FiberTask<void> task;
        task = FiberTask<void>(FiberAttributes{.name = "snake"}, [&] {
          has_handle.Wait();
          Select(OnEnd(task), OnDeadline(1s));
        });
        has_handle.Set();
        task.Wait();
      },
      "OnEnd: fiber 'snake'.* joins itself");
}

TEST(FiberSelectDeathTest, NothingToSelectIsTold) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        FiberTask<int> none;
        Select(OnEnd(none), Otherwise());
      },
      "there is no task");
  EXPECT_DEATH(
      {
        Fiber none;
        Select(OnEnd(none), Otherwise());
      },
      "no fiber was started");
  EXPECT_DEATH(
      {
        Future<int> none;
        Select(OnReady(none), Otherwise());
      },
      "the Future is empty");
}

}  // namespace
}  // namespace weft
