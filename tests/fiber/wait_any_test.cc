// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/wait_any.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/fiber/async.h"
#include "weft/sync/cancel_scope.h"

#include "fiber/helper_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class WaitAnyTest : public fiber::InFiberAndThread {};
WEFT_INSTANTIATE_FEW_SHAPES(WaitAnyTest);

TEST_P(WaitAnyTest, ReturnsTheOneThatIsThere) {
  InBoth([] {
    FiberEvent let_go;
    FiberTask task([&] { let_go.Wait(); });
    Fiber fiber([&] { let_go.Wait(); });
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    FiberEvent event;
    FiberLatch latch(1);
    EXPECT_EQ(WaitAny(task, fiber, future, event, latch, 0s), std::nullopt);
    EXPECT_EQ(WaitAny(task, fiber, future, event, latch, 100us), std::nullopt);
    event.Set();
    EXPECT_EQ(WaitAny(task, fiber, future, event, latch), 3U);
    event.Reset();
    latch.CountDown();
    EXPECT_EQ(WaitAny(task, fiber, future, event, latch, 1h), 4U);
    promise.SetValue(1);
    EXPECT_EQ(WaitAny(task, fiber, future, event), 2U);
    let_go.Set();
    EXPECT_EQ(WaitAny(task, event), 0U);
    EXPECT_EQ(WaitAny(event, fiber, 1h), 1U);
    fiber.Join();
  });
}

TEST_P(WaitAnyTest, TakesTheTasksAsTheyEnd) {
  InBoth([] {
    std::array<FiberEvent, 3> let_go;
    std::vector<FiberTask<int>> tasks;
    for (int i = 0; i < 3; ++i) {
      tasks.emplace_back([&, i] {
        let_go[static_cast<std::size_t>(i)].Wait();
        return i;
      });
    }
    for (const std::size_t next : {1U, 2U, 0U}) {
      EXPECT_EQ(WaitAny(tasks, 0s), std::nullopt);
      let_go[next].Set();
      const std::optional<std::size_t> ended = WaitAny(tasks);
      ASSERT_EQ(ended, next);
      EXPECT_EQ(tasks[*ended].Get(), static_cast<int>(next));
    }
    EXPECT_EQ(WaitAny(tasks), std::nullopt) << "nothing is left";
    EXPECT_EQ(WaitAny(tasks, 1h), std::nullopt) << "nothing is left";
  });
}

TEST_P(WaitAnyTest, EachTaskIsReturnedOnce) {
  InBoth([] {
    std::vector<FiberTask<int>> tasks;
    for (int i = 0; i < 50; ++i) {
      tasks.emplace_back([i] {
        FiberYield();
        return i;
      });
    }
    int sum = 0;
    int count = 0;
    while (const std::optional<std::size_t> ended = WaitAny(tasks)) {
      sum += tasks[*ended].Get();
      ++count;
    }
    EXPECT_EQ(count, 50);
    EXPECT_EQ(sum, 49 * 50 / 2);
  });
}

// The loop of fiber/select_tasks.h, over results of which some are exceptions.
TEST_P(WaitAnyTest, EachFutureIsReturnedOnceAlsoIfItHasFailed) {
  InBoth([] {
    std::vector<Future<int>> futures;
    std::vector<FiberTask<int>> tasks;
    constexpr int kCount = 12;
    for (int i = 0; i < kCount; ++i) {
      const auto make = [i] {
        FiberYield();
        if (i % 3 == 0) throw std::runtime_error("no");
        return i;
      };
      futures.push_back(Async(make));
      tasks.emplace_back(make);
    }
    futures.push_back(Promise<int>().GetFuture());  // Broken.
    const auto take_all = [](auto& all) {
      int thrown = 0;
      std::size_t count = 0;
      while (const std::optional<std::size_t> ended = WaitAny(all)) {
        if (++count > all.size()) return -1;  // For ever.
        try {
          static_cast<void>(all[*ended].Get());
        } catch (const std::exception&) {
          ++thrown;
        }
      }
      return thrown;
    };
    EXPECT_EQ(take_all(futures), kCount / 3 + 1);
    EXPECT_EQ(take_all(tasks), kCount / 3);
  });
}

TEST_P(WaitAnyTest, WhatIsEmptyIsPassedOver) {
  InBoth([] {
    FiberTask<void> no_task;
    Fiber no_fiber;
    Future<> no_future;
    EXPECT_EQ(WaitAny(no_task, no_fiber, no_future), std::nullopt);
    EXPECT_EQ(WaitAny(no_task, no_fiber, no_future, 1h), std::nullopt);
    FiberEvent event;
    event.Set();
    EXPECT_EQ(WaitAny(no_task, no_fiber, no_future, event), 3U);
    const std::vector<FiberEvent*> events = {nullptr, &event};
    EXPECT_EQ(WaitAny(events), 1U);
    std::vector<std::unique_ptr<FiberEvent>> owned;
    owned.push_back(nullptr);
    owned.push_back(std::make_unique<FiberEvent>());
    EXPECT_EQ(WaitAny(owned, 100us), std::nullopt);
    owned[1]->Set();
    EXPECT_EQ(WaitAny(owned), 1U);
    EXPECT_EQ(WaitAny(std::vector<Future<int>>()), std::nullopt);
  });
}

TEST_P(WaitAnyTest, AnOwnDeadlineIsKept) {
  InBoth([] {
    FiberEvent never;
    const auto begin = std::chrono::steady_clock::now();
    const Deadline deadline = 2ms;
    EXPECT_EQ(WaitAny(never, deadline), std::nullopt);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    std::vector<FiberEvent> more(2);
    EXPECT_EQ(WaitAny(more, Deadline(1ms)), std::nullopt);
  });
}

TEST_P(WaitAnyTest, IsACancellationPoint) {
  InFiber([] {
    FiberEvent let_go;
    std::vector<FiberTask<void>> tasks;
    for (int i = 0; i < 3; ++i) tasks.emplace_back([&] { let_go.Wait(); });
    CancelScope scope;
    std::atomic<bool> waits{false};
    Fiber fiber([&] {
      EXPECT_FALSE(scope.Run([&] {
        waits = true;
        static_cast<void>(WaitAny(tasks));
        ADD_FAILURE() << "it returned";
      }));
    });
    fiber::Until([&] { return waits.load(); });
    EXPECT_TRUE(scope.Cancel());
    fiber.Join();
    let_go.Set();
    for (FiberTask<void>& task : tasks) task.Get();
  });
}

}  // namespace
}  // namespace weft
