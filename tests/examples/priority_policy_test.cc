// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/priority_policy/priority_policy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/scheduling_group/policy_contract.h"

namespace weft::scheduling_group {
namespace {

const bool registered = RegisterSchedulingPolicy(
    "priority", [](const auto& options) { return std::make_unique<examples::PriorityPolicy>(options); });

class PriorityPolicyTest : public PolicyContract {
 protected:
  static void SetUpTestSuite() { ASSERT_TRUE(registered); }
  const char* PolicyName() const override { return "priority"; }
  FiberEntity* Of(std::size_t priority, bool local = false) { return New(local, priority); }
};

// --- What every policy must do ---

TEST_F(PriorityPolicyTest, AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady) {
  AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady();
}
TEST_F(PriorityPolicyTest, PingPongDoesNotStarveTheQueue) { PingPongThroughTheSlotDoesNotStarveTheQueue(); }
TEST_F(PriorityPolicyTest, TheBoundedQueueRefusesNewFibersButNeverReadyOnes) {
  TheBoundedQueueRefusesNewFibersButNeverReadyOnes();
}
TEST_F(PriorityPolicyTest, ABatchLargerThanTheQueueIsKeptWholeAndInOrder) {
  ABatchLargerThanTheQueueIsKeptWholeAndInOrder();
}
TEST_F(PriorityPolicyTest, WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt) {
  WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt();
}
TEST_F(PriorityPolicyTest, AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff) {
  AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff();
}
TEST_F(PriorityPolicyTest, LocalFibersHideNoneFromOtherGroups) {
  LocalFibersAmongThoseThatAWorkerKeepsHideNoneFromOtherGroups();
}
TEST_F(PriorityPolicyTest, EachFiberIsHandedOutOnceUnderLoad) { EachFiberIsHandedOutOnceUnderLoad(); }

// --- What this one does ---

TEST_F(PriorityPolicyTest, TheHighestLevelComesFirstAndEachEighthPopGoesDown) {
  SchedulingPolicy& policy = Make(1, 64);
  for (const std::size_t priority : {0U, 3U, 7U}) {
    for (int i = 0; i < 10; ++i) policy.Push(Of(priority), kStarted, kNoWorker);
  }
  std::string order;
  while (FiberEntity* fiber = Pop(policy, 0)) order += static_cast<char>('0' + fiber->priority());
  EXPECT_EQ(order, "777777737773333033333000000000") << "the 8th: 3, the 16th: 0, the 24th: the highest again";
}

// Also where the levels above are never empty, and all between have fibers.
TEST_F(PriorityPolicyTest, EachLevelHasATurnInSixtyFourPops) {
  constexpr int kTurns = 64;
  std::vector<FiberEntity*> of_level;
  for (std::size_t priority = 0; priority < examples::PriorityPolicy::kLevels; ++priority) {
    of_level.push_back(Of(priority));
  }
  for (FiberEntity* waiting : of_level) {
    for (int pops_before = 0; pops_before < kTurns; ++pops_before) {
      SchedulingPolicy& policy = Make(1, 64);
      for (FiberEntity* fiber : of_level) {
        if (fiber != waiting) policy.Push(fiber, kStarted, kNoWorker);
      }
      for (int i = 0; i < pops_before; ++i) policy.Push(Pop(policy, 0), kYielded, 0);
      policy.Push(waiting, kWoken, kNoWorker);
      int pops = 1;
      for (FiberEntity* next; (next = Pop(policy, 0)) != waiting; ++pops) {
        ASSERT_LT(pops, kTurns) << "priority " << waiting->priority() << " after " << pops_before << " pops";
        policy.Push(next, kYielded, 0);
      }
    }
  }
}

TEST_F(PriorityPolicyTest, AThiefGetsTheHighestThatMayLeave) {
  SchedulingPolicy& policy = Make(1, 64);
  FiberEntity* local = Of(7, /*local=*/true);
  FiberEntity* first = Of(5);
  FiberEntity* second = Of(2);
  for (FiberEntity* fiber : {local, second, first}) policy.Push(fiber, kStarted, kNoWorker);
  bool must_notify = false;
  EXPECT_EQ(policy.Steal(&must_notify), first);
  EXPECT_TRUE(policy.HasStealable());
  EXPECT_EQ(policy.Steal(&must_notify), second);
  EXPECT_FALSE(policy.HasStealable()) << "the group-local one is for no thief";
  EXPECT_EQ(policy.Steal(&must_notify), nullptr);
  EXPECT_FALSE(must_notify) << "it was hidden from nobody";
  EXPECT_TRUE(policy.HasWork());
  EXPECT_EQ(Pop(policy, 0), local);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PriorityPolicyTest, GroupLocalFibersAndOthersOfALevelTakeTurns) {
  SchedulingPolicy& policy = Make(1, 64);
  std::vector<FiberEntity*> fibers;
  for (int i = 0; i < 6; ++i) fibers.push_back(Of(4, /*local=*/i >= 3));
  for (FiberEntity* fiber : fibers) policy.Push(fiber, kStarted, kNoWorker);
  for (const std::size_t expected : {0U, 3U, 1U, 4U, 2U, 5U}) EXPECT_EQ(Pop(policy, 0), fibers[expected]);
}

TEST_F(PriorityPolicyTest, TheBoundedQueueIsThatOfAllLevels) {
  SchedulingPolicy& policy = Make(1, 4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(policy.TryPushNew(Of(0), kNoWorker));
  EXPECT_FALSE(policy.TryPushNew(Of(7), kNoWorker));
  for (int i = 0; i < 2; ++i) EXPECT_NE(Pop(policy, 0), nullptr);
  EXPECT_FALSE(policy.Full());
  EXPECT_TRUE(policy.HalfEmpty());
  while (Pop(policy, 0) != nullptr) {
  }
}

// --- In a runtime ---

class PriorityRuntimeTest : public ::testing::TestWithParam<fiber::Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, PriorityRuntimeTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

// Workers that sleep are woken, those of the other group, too, and so are threads that wait for room in the queue.
TEST_P(PriorityRuntimeTest, NoFiberAndNoThreadThatStartsFibersIsForgotten) {
  constexpr unsigned kThreads = 2;
  constexpr unsigned kFibers = 1000;  // of each thread
  RuntimeOptions options = fiber::OptionsOf(GetParam());
  options.scheduling_name = "priority";
  options.run_queue_size = 16;
  options.start_timeout = std::chrono::minutes(1);
  const fiber::RuntimeOf runtime(options);
  FiberMutex mutex;
  unsigned turns = 0;
  FiberLatch latch(kThreads * kFibers);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (unsigned i = 0; i < kFibers; ++i) {
        const FiberAttributes attributes{
            .scheduling_group = 0, .scheduling_group_local = i % 5 == 0, .priority = i % 8};
        const bool started = StartFiberDetached(attributes, [&] {
          FiberYield();
          {
            const std::scoped_lock lock(mutex);
            ++turns;
            FiberYield();
          }
          latch.CountDown();
        });
        EXPECT_TRUE(started);
        if (!started) latch.CountDown();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  latch.Wait();
  EXPECT_EQ(turns, kThreads * kFibers);
}

}  // namespace
}  // namespace weft::scheduling_group
