// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Scopes, tasks, futures and selections of fibers that a FiberLoop runs, without a runtime and beside one.

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>

#include "weft/fiber/async.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"

#include "testing/policy.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

// As a foreign loop does: when the descriptor is readable, and no sooner.
void RunWhenReadable(FiberLoop* loop) {
  pollfd entry{.fd = loop->NotifyFd(), .events = POLLIN, .revents = 0};
  while (loop->RunReady()) ASSERT_EQ(::poll(&entry, 1, 30'000), 1) << "nothing is ready, and tasks are left";
}

TEST(LoopScopes, TheChildrenOfAScopeRunInTheLoop) {
  FiberLoop loop;
  int sum = 0;
  loop.AddTask([&] {
    FiberScope scope;
    for (int i = 1; i <= 10; ++i) {
      ASSERT_TRUE(scope.Spawn([&, i] {
        EXPECT_EQ(FiberLoop::Current(), &loop);
        FiberSleepFor(1ms);
        sum += i;
      }));
    }
    scope.Wait();
    EXPECT_EQ(sum, 55);
  });
  RunWhenReadable(&loop);
  EXPECT_EQ(sum, 55);
}

TEST(LoopScopes, AFailureCancelsTheOthers) {
  FiberLoop loop;
  bool caught = false;
  loop.AddTask([&] {
    FiberScope scope;
    ASSERT_TRUE(scope.Spawn([] { FiberSleepFor(1h); }));
    ASSERT_TRUE(scope.Spawn([] { throw std::runtime_error("no"); }));
    try {
      scope.Wait();
    } catch (const std::runtime_error&) {
      caught = true;
    }
    EXPECT_EQ(scope.Cancelled(), 1U);
  });
  RunWhenReadable(&loop);
  EXPECT_TRUE(caught);
}

TEST(LoopScopes, ADeadlineMakesTheDescriptorReadable) {
  FiberLoop loop;
  bool given_up = false;
  loop.AddTask([&] { given_up = !MoveOnAfter(5ms, [] { FiberSleepFor(1h); }); });
  RunWhenReadable(&loop);
  EXPECT_TRUE(given_up);
}

TEST(LoopScopes, AnotherThreadsCancelWakesTheLoop) {
  FiberLoop loop;
  std::atomic<bool> waits{false};
  CancelHandle handle;
  bool cancelled = false;
  loop.AddTask([&] {
    CancelScope scope;
    handle = scope.Handle();
    waits = true;
    cancelled = !scope.Run([] { FiberEvent().Wait(); });
  });
  std::thread canceller([&] {
    while (!waits) std::this_thread::yield();
    EXPECT_TRUE(handle.Cancel());
  });
  RunWhenReadable(&loop);
  canceller.join();
  EXPECT_TRUE(cancelled);
}

TEST(LoopScopes, ATaskIsCancelledByItsHandle) {
  FiberLoop loop;
  bool caught = false;
  loop.AddTask([&] {
    FiberTask task([] {
      FiberSleepFor(1h);
      return 1;
    });
    FiberYield();
    EXPECT_TRUE(task.Cancel());
    try {
      task.Get();
    } catch (const TaskCancelled&) {
      caught = true;
    }
  });
  RunWhenReadable(&loop);
  EXPECT_TRUE(caught);
}

TEST(LoopScopes, TheMainContextIsInNoScope) {
  FiberLoop loop;
  bool ran = false;
  loop.AddTask([&] {
    CancelScope scope;
    scope.Cancel();
    EXPECT_TRUE(scope.Run([&] {
      loop.RunInMainContext([&] {
        EXPECT_FALSE(IsCancelRequested());
        TestCancel();
        ran = true;
      });
      EXPECT_TRUE(IsCancelRequested());
    }));
  });
  RunWhenReadable(&loop);
  EXPECT_TRUE(ran);
}

TEST(LoopScopes, ATaskOfASelfCancelledScopeEndsAndSaysSoToFinally) {
  FiberLoop loop;
  std::optional<int> result;
  loop.AddTaskFinally(
      [] {
        return MoveOnAfter(
            1ms,
            [] {
              FiberSleepFor(1h);
              return 1;
            },
            7);
      },
      [&](FiberLoop::Result<int> got) { result = got.value(); });
  RunWhenReadable(&loop);
  EXPECT_EQ(result, 7);
}

class LoopScopesWithRuntime : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.concurrency_hint = GetParam();
    options.scheduling_name = weft::testing::PolicyUnderTest();
    StartRuntime(options);
  }
  void TearDown() override { EXPECT_EQ(TerminateRuntime(), 0U); }
};
INSTANTIATE_TEST_SUITE_P(Workers, LoopScopesWithRuntime, ::testing::Values(1, 2, 4, 8));

TEST_P(LoopScopesWithRuntime, AScopeOfTheLoopHasChildrenInTheRuntimeAndCancelsThem) {
  FiberLoop loop;
  std::atomic<int> cancelled{0};
  loop.AddTask([&] {
    FiberScope scope;
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(scope.Spawn({.scheduling_group = 0}, [&] {
        EXPECT_EQ(FiberLoop::Current(), nullptr);
        try {
          FiberSleepFor(1h);
        } catch (const FiberCancelled&) {
          ++cancelled;
          throw;
        }
      }));
    }
    ASSERT_TRUE(scope.Spawn([&] { scope.Cancel(); }));
    scope.Wait();
    EXPECT_EQ(scope.Live(), 0U);
  });
  RunWhenReadable(&loop);
  EXPECT_LE(cancelled, 8);  // Those that had begun.
}

TEST_P(LoopScopesWithRuntime, AFiberOfTheRuntimeCancelsATaskOfTheLoopInEachOfItsWaits) {
  FiberLoop loop;
  constexpr int kRounds = 200;
  FiberChannel<CancelHandle> handles(1);
  int cancelled = 0;
  Fiber canceller([&] {
    for (const CancelHandle& handle : handles) static_cast<void>(handle.Cancel());
  });
  loop.AddTask([&] {
    for (int round = 0; round < kRounds; ++round) {
      CancelScope scope;
      ASSERT_EQ(handles.Put(scope.Handle()), ChannelResult::kOk);
      const bool ended = scope.Run([round] {
        if (round % 3 == 0) FiberSleepFor(1h);
        if (round % 3 == 1) FiberEvent().Wait();
        FiberChannel<int> nothing(1);
        static_cast<void>(Select(OnGet(nothing, [](auto&&) {}), OnDeadline(1h)));
      });
      if (!ended) ++cancelled;
    }
    handles.Close();
  });
  RunWhenReadable(&loop);
  canceller.Join();
  EXPECT_EQ(cancelled, kRounds);
}

TEST_P(LoopScopesWithRuntime, AFutureOfTheRuntimeIsWaitedForInTheLoop) {
  FiberLoop loop;
  int answer = 0;
  loop.AddTask([&] {
    Future<int> future = Async(FiberAttributes{.scheduling_group = 0}, [] {
      EXPECT_EQ(FiberLoop::Current(), nullptr);
      return 42;
    });
    answer = BlockingGet(std::move(future)).GetValue0();
  });
  RunWhenReadable(&loop);
  EXPECT_EQ(answer, 42);
}

}  // namespace
}  // namespace weft
