// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/testing.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/runtime_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

class FindFiberTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, FindFiberTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}, fiber::Shape{2, 2}),
                         &fiber::NameOf);

template <class F>
void InFiberAndThread(F f) {
  Fiber(f).Join();
  std::thread(f).join();
}

TEST_P(FindFiberTest, AFiberThatLivesIsFoundAndJoined) {
  InFiberAndThread([] {
    int result = 0;
    FiberEvent go;
    Fiber fiber({.name = "wanted"}, [&] {
      go.Wait();
      result = 7;
    });
    const std::optional<FoundFiber> found = FindFiber(fiber.Id());
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->Id(), fiber.Id());
    EXPECT_EQ(found->Name(), "wanted");
    EXPECT_FALSE(found->HasEnded());
    EXPECT_FALSE(found->Join(1ns));
    go.Set();
    found->Join();
    EXPECT_EQ(result, 7);
    EXPECT_TRUE(found->HasEnded());
    fiber.Join();
    EXPECT_TRUE(found->Join(Deadline(0ns))) << "it is ours after the Fiber has gone";
  });
}

TEST_P(FindFiberTest, AFiberThatHasEndedIsNotFound) {
  InFiberAndThread([] {
    Fiber fiber([] {});
    const std::uint64_t id = fiber.Id();
    fiber.Join();
    EXPECT_FALSE(FindFiber(id).has_value());
    std::vector<Fiber> others;  // One of them has its entity.
    for (int i = 0; i < 200; ++i) others.emplace_back([] {});
    EXPECT_FALSE(FindFiber(id).has_value());
    for (Fiber& other : others) other.Join();
    EXPECT_FALSE(FindFiber(0).has_value());
    EXPECT_FALSE(FindFiber(UINT64_MAX).has_value());
  });
}

TEST_P(FindFiberTest, TasksTasksOfAScopeAndDetachedFibersAreFound) {
  InFiberAndThread([] {
    FiberEvent go;
    FiberTask<int> task([&] {
      go.Wait();
      return 1;
    });
    FiberScope scope;
    auto of_scope = scope.SpawnTask([&] { go.Wait(); });
    Fiber detached([&] { go.Wait(); });
    const std::uint64_t id = detached.Id();
    detached.Detach();
    std::vector<FoundFiber> found;
    for (const std::uint64_t one : {task.Id(), of_scope.Id(), id}) {
      const auto one_found = FindFiber(one);
      ASSERT_TRUE(one_found.has_value());
      found.push_back(*one_found);
    }
    go.Set();
    for (const FoundFiber& one : found) EXPECT_TRUE(one.Join(1h));
    EXPECT_EQ(task.Get(), 1);
    scope.Wait();
  });
}

// They have nothing by which they could be joined, also while they are in a scope.
TEST_P(FindFiberTest, PlainFibersAreNotFound) {
  InFiberAndThread([] {
    FiberEvent checked;
    FiberLatch began(2);
    FiberLatch ended(2);
    std::atomic<std::uint64_t> ids[2] = {};
    ASSERT_TRUE(StartFiberDetached([&] {
      CancelScope inside;
      EXPECT_TRUE(inside.Run([&] {
        ids[0] = GetFiberId();
        EXPECT_FALSE(FindFiber(GetFiberId()).has_value());
        began.CountDown();
        checked.Wait();
      }));
      ended.CountDown();
    }));
    FiberScope scope;
    ASSERT_TRUE(scope.Spawn([&] {
      ids[1] = GetFiberId();
      EXPECT_FALSE(FindFiber(GetFiberId()).has_value());
      began.CountDown();
      checked.Wait();
      ended.CountDown();
    }));
    began.Wait();
    for (const auto& id : ids) EXPECT_FALSE(FindFiber(id).has_value());
    checked.Set();
    ended.Wait();
    scope.Wait();
  });
}

TEST_P(FindFiberTest, WhatIsFoundCanBeCancelledAndInterrupted) {
  InFiberAndThread([] {
    Fiber cancelled([] { FiberSleepFor(1h); });
    const auto first = FindFiber(cancelled.Id());
    ASSERT_TRUE(first.has_value());
    EXPECT_TRUE(first->Cancel());
    EXPECT_FALSE(first->Cancel());
    EXPECT_TRUE(cancelled.Join(1h));
    std::string caught;
    Fiber interrupted([&] {
      try {
        FiberSleepFor(1h);
      } catch (const std::runtime_error& error) {
        caught = error.what();
      }
    });
    const auto second = FindFiber(interrupted.Id());
    ASSERT_TRUE(second.has_value());
    // Ours is the last reference: ThreadSanitizer does not see how the C++ library counts them.
    const auto exception = std::make_exception_ptr(std::runtime_error("wake up"));
    second->Interrupt(exception);
    EXPECT_TRUE(second->Join(1h));
    EXPECT_EQ(caught, "wake up");
    second->Interrupt(std::runtime_error("nobody is there"));
    EXPECT_TRUE(first->HasEnded());
    interrupted.Join();
  });
}

// As Fiber::Cancel() may not be.
TEST_P(FindFiberTest, WhatIsFoundCanBeCancelledWhileOthersJoinIt) {
  InFiberAndThread([] {
    Fiber sleeper([] { FiberSleepFor(1h); });
    const std::uint64_t id = sleeper.Id();
    FiberLatch found(2);
    std::vector<Fiber> joiners;
    for (int i = 0; i < 2; ++i) {
      joiners.emplace_back([&] {
        const auto same = FindFiber(id);
        ASSERT_TRUE(same.has_value());
        found.CountDown();
        same->Join();
      });
    }
    Fiber owner([&] { sleeper.Join(); });
    found.Wait();
    const auto same = FindFiber(id);
    ASSERT_TRUE(same.has_value());
    EXPECT_TRUE(same->Cancel());
    same->Join();
    for (Fiber& joiner : joiners) joiner.Join();
    owner.Join();
  });
}

TEST_P(FindFiberTest, AJoinOfWhatIsFoundIsACancellationPoint) {
  InFiber([] {
    FiberEvent go;
    Fiber fiber([&] { go.Wait(); });
    const auto found = FindFiber(fiber.Id());
    CancelScope scope;
    EXPECT_FALSE(scope.Run([&] {
      scope.Cancel();
      found->Join();
    }));
    go.Set();
    found->Join();
    fiber.Join();
  });
}

TEST_P(FindFiberTest, CopiesReferToTheSameFiber) {
  FiberEvent go;
  Fiber fiber([&] { go.Wait(); });
  Fiber other([&] { go.Wait(); });
  auto found = FindFiber(fiber.Id());
  const FoundFiber copy = *found;
  found = FindFiber(other.Id());
  *found = *found;  // NOLINT
  EXPECT_EQ(found->Id(), other.Id());
  *found = copy;
  EXPECT_EQ(found->Id(), fiber.Id());
  go.Set();
  copy.Join();
  fiber.Join();
  other.Join();
}

// Whoever is found by a made-up id is never another one, and a cancellation reaches none but it.
TEST_P(FindFiberTest, SearchesAndCancellationsBesideFibersThatComeAndGo) {
  constexpr int kRounds = 300;
  std::atomic<std::uint64_t> last{0};
  std::atomic<bool> over{false};
  std::atomic<int> found_some{0};
  const auto search = [&] {
    while (!over) {
      const std::uint64_t id = last;
      // Also ids that nobody has told.
      for (const std::uint64_t wanted : {id, id + 1, id + 2}) {
        const auto found = FindFiber(wanted);
        if (!found.has_value()) continue;
        ++found_some;
        EXPECT_EQ(found->Id(), wanted);
        if (found->Name() == "victim") found->Cancel();
        found->Join();
        EXPECT_TRUE(found->HasEnded());
      }
    }
  };
  std::thread thread(search);
  InFiber([&] {
    for (int i = 0; i < kRounds || found_some == 0; ++i) {
      Fiber spared([] { TestCancel(); });
      Fiber victim({.name = "victim"}, [&] {
        last = GetFiberId();
        FiberSleepFor(1h);
      });
      spared.Join();
      victim.Join();  // The searcher cancels it.
      {
        const RefuseFiberStarts refuse;
        EXPECT_FALSE(Fiber::TryStart({}, [] {}).has_value());
      }
    }
  });
  over = true;
  thread.join();
}

}  // namespace
}  // namespace weft
