// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What v1 and v2 have in common: what holds of every policy (policy_contract.h), and what comes from hand-off slots, a
// level of woken fibers, and counts.

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "weft/scheduling_group/policy/policy_v1.h"
#include "weft/scheduling_group/scheduling_policy.h"

#include "scheduling_group/policy_contract.h"
#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

class PolicyTest : public PolicyContract, public ::testing::WithParamInterface<const char*> {
 protected:
  const char* PolicyName() const override { return GetParam(); }
};

INSTANTIATE_TEST_SUITE_P(Policies, PolicyTest, ::testing::Values("v1", "v2"),
                         [](const auto& info) { return std::string(info.param); });

// --- policy_contract.h ---

TEST_P(PolicyTest, AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady) {
  AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady();
}
TEST_P(PolicyTest, PingPongThroughTheSlotDoesNotStarveTheQueue) { PingPongThroughTheSlotDoesNotStarveTheQueue(); }
TEST_P(PolicyTest, TheBoundedQueueRefusesNewFibersButNeverReadyOnes) {
  TheBoundedQueueRefusesNewFibersButNeverReadyOnes();
}
TEST_P(PolicyTest, ABatchLargerThanTheQueueIsKeptWholeAndInOrder) { ABatchLargerThanTheQueueIsKeptWholeAndInOrder(); }
TEST_P(PolicyTest, WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt) { WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt(); }
TEST_P(PolicyTest, AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff) {
  AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff();
}
TEST_P(PolicyTest, LocalFibersAmongThoseThatAWorkerKeepsHideNoneFromOtherGroups) {
  LocalFibersAmongThoseThatAWorkerKeepsHideNoneFromOtherGroups();
}
TEST_P(PolicyTest, EachFiberIsHandedOutOnceUnderLoad) { EachFiberIsHandedOutOnceUnderLoad(); }

// --- Slots, woken fibers, counts ---

TEST_P(PolicyTest, AFiberWokenByAFiberStaysOnItsWorkerAheadOfTheQueue) {
  SchedulingPolicy& policy = Make(2, 16);
  const auto f = NewFibers(3);
  policy.Push(f[0], kStarted, 0);
  policy.Push(f[1], kWoken, 0);
  policy.Push(f[2], kWoken, 0);  // The slot is taken: queued.
  EXPECT_EQ(Pop(policy, 0), f[1]);
  EXPECT_EQ(Pop(policy, 0), f[0]);
  EXPECT_EQ(Pop(policy, 0), f[2]);
}

TEST_P(PolicyTest, AWorkerWithAFullSlotMakesTheGroupNotIdleAndASpinnerTakesTheFiberAfterItsPatience) {
  SchedulingPolicy& policy = Make(2, 16);
  FiberEntity* fiber = New();
  policy.Push(fiber, kWoken, 0);
  EXPECT_TRUE(policy.HasWork());
  EXPECT_EQ(Pop(policy, 1), nullptr);
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), nullptr) << "not at first sight";
  EXPECT_TRUE(memory.active);
  EXPECT_EQ(Insist([&] { return policy.PopFromBusyWorkers(1, &memory); }), fiber);
  EXPECT_FALSE(policy.HasWork());
}

// Each hand-off of a pair that passes messages sent the neighbouring groups requests, which may not have what is in a
// slot.
TEST_P(PolicyTest, AHandOffSlotIsNothingForThieves) {
  SchedulingPolicy& policy = Make(2, 16);
  policy.Push(New(), kWoken, 0);
  EXPECT_TRUE(policy.HasWork());
  EXPECT_FALSE(policy.HasStealable());
  policy.Push(New(), kWoken, kNoWorker);
  EXPECT_TRUE(policy.HasStealable());
  EXPECT_NE(Pop(policy, 0), nullptr);
  EXPECT_NE(Pop(policy, 0), nullptr);
  EXPECT_FALSE(policy.HasStealable());
}

// In the peers a group-local fiber at the head of the queue stops all stealing.
TEST_P(PolicyTest, LocalFiberAtQueueHeadDoesNotBlockStealingAndIsNotStolen) {
  SchedulingPolicy& policy = Make(2, 16);
  FiberEntity* local = New(/*local=*/true);
  FiberEntity* other = New();
  policy.Push(local, kStarted, kNoWorker);
  policy.Push(other, kStarted, kNoWorker);
  bool must_notify = false;
  EXPECT_EQ(policy.Steal(&must_notify), other);
  EXPECT_TRUE(must_notify) << "the local fiber was hidden from its workers: they must be notified";
  EXPECT_EQ(policy.Steal(&must_notify), nullptr);
  EXPECT_EQ(Pop(policy, 0), local);
}

TEST_P(PolicyTest, WhatAWorkerBringsFromTheSharedQueueIsCounted) {
  SchedulingPolicy& policy = Make(2, 64);
  const auto f = NewFibers(40);
  for (FiberEntity* fiber : f) ASSERT_TRUE(policy.TryPushNew(fiber, kNoWorker));
  for (std::size_t i = 0; i < f.size(); ++i) ASSERT_NE(Pop(policy, 1), nullptr);
  EXPECT_EQ(policy.CountsOf(1).fibers, 40u);
  EXPECT_GE(policy.CountsOf(1).visits, 2u) << "one may not take all at once";
  EXPECT_LE(policy.CountsOf(1).visits, 40u);
  EXPECT_EQ(policy.CountsOf(0).visits, 0u);
  EXPECT_EQ(Pop(policy, 1), nullptr);
  EXPECT_EQ(policy.CountsOf(1).fibers, 40u) << "a look that finds nothing is no visit";
}

// Timers were 57 ms late behind 50,000 new fibers.
TEST_P(PolicyTest, AFiberWokenFromOutsideDoesNotWaitBehindThousandsOfNewOnes) {
  for (const bool batch : {false, true}) {
    SchedulingPolicy& policy = Make(2, 16384);
    const auto crowd = NewFibers(10'000);
    for (FiberEntity* fiber : crowd) policy.Push(fiber, kStarted, kNoWorker);
    for (int i = 0; i < 1000; ++i) ASSERT_NE(Pop(policy, 0), nullptr);  // It takes large shares by now.
    FiberEntity* woken = New();
    if (batch) {
      policy.PushBatch(&woken, 1, kWoken, kNoWorker);
    } else {
      policy.Push(woken, kWoken, kNoWorker);
    }
    int ticks = 0;
    while (Pop(policy, 0) != woken) ASSERT_LT(++ticks, 300);
    while (Pop(policy, 0) != nullptr) {
    }
  }
}

TEST_P(PolicyTest, NewFibersAreNotStarvedByFibersThatAreAlwaysWokenFromOutside) {
  SchedulingPolicy& policy = Make(2, 4096);
  for (FiberEntity* fiber : NewFibers(500)) policy.Push(fiber, kWoken, kNoWorker);
  const auto fresh = NewFibers(3);
  for (FiberEntity* fiber : fresh) policy.Push(fiber, kStarted, kNoWorker);
  for (FiberEntity* expected : fresh) {
    int ticks = 0;
    for (FiberEntity* fiber; (fiber = Pop(policy, 0)) != expected; policy.Push(fiber, kWoken, kNoWorker)) {
      ASSERT_NE(fiber, nullptr);
      ASSERT_LT(++ticks, 400) << "it starves";
    }
  }
  while (Pop(policy, 0) != nullptr) {
  }
}

TEST(SchedulingPolicyRegistry, PoliciesAreFoundByNameAndNamesAreUnique) {
  EXPECT_NE(CreateSchedulingPolicy("v1", {}), nullptr);
  EXPECT_NE(CreateSchedulingPolicy("v2", {}), nullptr);
  EXPECT_EQ(CreateSchedulingPolicy("no such", {}), nullptr);
  EXPECT_TRUE(RegisterSchedulingPolicy(
      "mine", [](const SchedulingPolicy::Options& options) { return std::make_unique<PolicyV1>(options); }));
  EXPECT_FALSE(RegisterSchedulingPolicy("v1", nullptr));
  EXPECT_NE(CreateSchedulingPolicy("mine", {}), nullptr);
}

}  // namespace
}  // namespace weft::scheduling_group
