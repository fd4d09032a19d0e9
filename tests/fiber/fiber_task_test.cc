// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_task.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

#include "fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class FiberTaskTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, FiberTaskTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}, fiber::Shape{2, 2}),
                         &fiber::NameOf);

template <class F>
void InFiberAndThread(F f) {
  Fiber(f).Join();
  std::thread(f).join();
}

TEST_P(FiberTaskTest, GetReturnsTheResult) {
  InFiberAndThread([] {
    FiberTask task([] {
      FiberSleepFor(1ms);
      return std::make_unique<int>(7);
    });
    EXPECT_TRUE(task.Valid());
    EXPECT_EQ(*task.Get(), 7);
    EXPECT_FALSE(task.Valid());
    FiberTask<void> nothing({.name = "nothing"}, [] {});
    EXPECT_EQ(nothing.Name(), "nothing");
    nothing.Get();
  });
}

TEST_P(FiberTaskTest, GetThrowsTheException) {
  InFiberAndThread([] {
    FiberTask task([]() -> int { throw std::runtime_error("broken"); });
    EXPECT_THROW(task.Get(), std::runtime_error);
  });
}

TEST_P(FiberTaskTest, AWaitMayBeLate) {
  InFiberAndThread([] {
    FiberEvent let_go;
    FiberTask task([&] {
      let_go.Wait();
      return 3;
    });
    EXPECT_FALSE(task.Wait(1ms));
    EXPECT_EQ(task.Get(1ms), std::nullopt);
    EXPECT_FALSE(task.IsReady());
    let_go.Set();
    EXPECT_EQ(task.Get(1h), 3);
  });
}

TEST_P(FiberTaskTest, ACancelledTaskHasNoResult) {
  InFiberAndThread([] {
    FiberTask task([] {
      FiberSleepFor(1h);
      return 1;
    });
    EXPECT_TRUE(task.Cancel());
    EXPECT_THROW(task.Get(), TaskCancelled);
    FiberTask stubborn([] {
      try {
        FiberSleepFor(1h);
      } catch (const FiberCancelled&) {
        return 2;  // It may.
      }
      return 1;
    });
    stubborn.Cancel();
    EXPECT_EQ(stubborn.Get(), 2);
  });
}

TEST_P(FiberTaskTest, TheDestructorCancelsAndWaits) {
  InFiberAndThread([] {
    auto alive = std::make_shared<int>();
    {
      FiberTask task([alive] { FiberSleepFor(1h); });
    }
    EXPECT_EQ(alive.use_count(), 1);
    FiberTask<void> moved;
    moved = FiberTask<void>([alive] { FiberSleepFor(1h); });
    moved = FiberTask<void>([] {});
    EXPECT_EQ(alive.use_count(), 1);
    moved.Get();
  });
}

// Whoever waits is cancelled: the task goes on.
TEST_P(FiberTaskTest, ACancelledGetLeavesTheTask) {
  InFiber([] {
    FiberEvent let_go;
    FiberTask task([&] {
      let_go.Wait();
      return 4;
    });
    EXPECT_FALSE(MoveOnAfter(1ms, [&] { return task.Get(); }));
    EXPECT_TRUE(task.Valid());
    let_go.Set();
    EXPECT_EQ(task.Get(), 4);
  });
}

TEST_P(FiberTaskTest, ARefusedStartThrows) {
  InFiberAndThread([] {
    const RefuseFiberStarts refuse;
    auto alive = std::make_shared<int>();
    EXPECT_THROW(static_cast<void>(FiberTask<void>({.name = "never"}, [alive] {})), FiberNotStarted);
    static_assert(std::is_same_v<TaskRefused, FiberNotStarted>);
    EXPECT_EQ(alive.use_count(), 1);
  });
}

// --- Fiber::Cancel, Fiber::Interrupt ---

// What a task returned and nobody took: where its destructor may wait.
TEST_P(FiberTaskTest, AResultThatNobodyTakesIsDestroyedInAFiber) {
  struct Result {
    explicit Result(std::atomic<int>* the_count) : count(the_count) {}
    Result(Result&& other) noexcept : count(std::exchange(other.count, nullptr)) {}
    ~Result() {
      if (count == nullptr) return;
      EXPECT_NE(scheduling_group::CurrentFiber(), nullptr);
      FiberYield();
      ++*count;
    }
    std::atomic<int>* count;
  };
  InFiber([] {
    std::atomic<int> destroyed{0};
    FiberEvent go_on;
    {
      FiberScope scope;
      static_cast<void>(scope.SpawnTask([&] {
        go_on.Wait();
        return Result(&destroyed);
      }));
      go_on.Set();
      scope.Wait();
      EXPECT_EQ(destroyed, 1) << "by the task, for its handle had gone";
      auto kept = scope.SpawnTask([&] { return Result(&destroyed); });
      scope.Wait();
      EXPECT_EQ(destroyed, 1);
    }
    EXPECT_EQ(destroyed, 2);
    for (int i = 0; i < 200; ++i) {
      destroyed = 0;
      {
        const FiberTask<Result> task([&] { return Result(&destroyed); });
        if (i % 2 == 0) task.Wait();
      }
      EXPECT_LE(destroyed, 1);
      EXPECT_TRUE(destroyed == 1 || i % 2 != 0);
    }
  });
}

TEST(FiberTaskDeathTest, ATaskThatHoldsItsOwnLastHandleIsNamed) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
        auto task = std::make_shared<FiberTask<void>>();
        FiberEvent let_go;
        *task = FiberTask<void>(FiberAttributes{.name = "snake"}, [task, &let_go] { let_go.Wait(); });
        task.reset();
        let_go.Set();
        std::this_thread::sleep_for(std::chrono::seconds(30));
      },
      "FiberTask::~FiberTask: fiber 'snake'.* joins itself");
}

TEST_P(FiberTaskTest, AFiberCanBeCancelledBeforeItBegins) {
  InFiber([] {
    bool began = false;
    Fiber fiber([&] {
      began = true;
      FiberSleepFor(1h);
      ADD_FAILURE() << "it slept";
    });
    EXPECT_TRUE(fiber.Cancel());
    EXPECT_FALSE(fiber.Cancel());
    fiber.Join();
    EXPECT_TRUE(began);
  });
}

struct WakeUp {};

TEST_P(FiberTaskTest, InterruptRaisesAnExceptionOnce) {
  InFiberAndThread([] {
    int raised = 0;
    std::atomic<bool> waits{false};
    Fiber fiber([&] {
      try {
        waits = true;
        FiberSleepFor(1h);
      } catch (const WakeUp&) {
        ++raised;
      }
      FiberSleepFor(1ms);  // Once.
    });
    while (!waits) synchronization::YieldFiberOrThread();
    fiber.Interrupt(WakeUp());
    fiber.Join();
    EXPECT_EQ(raised, 1);
  });
}

TEST_P(FiberTaskTest, AnInterruptWaitsForTheEndOfAShield) {
  InFiber([] {
    FiberEvent let_go;
    std::atomic<bool> inside{false};
    Fiber fiber([&] {
      Shielded([&] {
        inside = true;
        let_go.Wait();
      });
      EXPECT_THROW(FiberSleepFor(1h), int);
    });
    while (!inside) FiberYield();
    fiber.Interrupt(5);
    let_go.Set();
    fiber.Join();
  });
}

TEST_P(FiberTaskTest, WhatAFiberHasCapturedIsDestroyedUndisturbed) {
  struct WaitsAtItsEnd {
    explicit WaitsAtItsEnd(int* the_ended) : ended(the_ended) {}
    WaitsAtItsEnd(WaitsAtItsEnd&& other) noexcept : ended(std::exchange(other.ended, nullptr)) {}
    ~WaitsAtItsEnd() {
      if (ended == nullptr) return;
      FiberSleepFor(1ms);
      ++*ended;
    }
    int* ended;
  };
  InFiber([] {
    int ended = 0;
    Fiber fiber([captured = WaitsAtItsEnd(&ended)] { FiberSleepFor(1h); });
    fiber.Cancel();
    fiber.Join();
    EXPECT_EQ(ended, 1);
  });
}

TEST_P(FiberTaskTest, AJoinCanBeCancelledAndMadeAgain) {
  InFiber([] {
    FiberEvent let_go;
    Fiber slow([&] { let_go.Wait(); });
    EXPECT_FALSE(MoveOnAfter(1ms, [&] { slow.Join(); }));
    EXPECT_TRUE(slow.Joinable());
    let_go.Set();
    slow.Join();
  });
}

}  // namespace
}  // namespace weft
