// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What is v2's own; for the rest see policy_test.cc.

#include "weft/scheduling_group/policy_v2.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kFresh = 256;   // so many fibers that its fibers have started a worker keeps
constexpr std::size_t kTurns = 1024;  // and so many that yielded or were woken
constexpr std::size_t kMoved = 128;

using PolicyV2Test = PolicyFixture;

TEST_F(PolicyV2Test, AWorkerRunsTheNewestOfWhatItsFibersStartedAndAnIdleOneTakesTheOlderHalf) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) ASSERT_TRUE(policy.TryPushNew(fiber, 0));
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), f[0]);
  for (int i = 4; i >= 1; --i) EXPECT_EQ(Pop(policy, 1), f[i]);
  EXPECT_EQ(Pop(policy, 1), nullptr);
  for (int i = 9; i >= 5; --i) EXPECT_EQ(Pop(policy, 0), f[i]);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV2Test, FibersThatYieldTakeTurnsAndAnIdleWorkerTakesTheOlderHalf) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) policy.Push(fiber, kYielded, 0);
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), f[0]);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(Pop(policy, 1), f[i]);
  for (int i = 5; i <= 9; ++i) EXPECT_EQ(Pop(policy, 0), f[i]);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV2Test, OfWhatAWorkerCannotKeepTheOldestGoToTheGlobalQueue) {
  for (const ReadyReason reason : {kStarted, kYielded}) {
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
    const auto f = NewFibers((reason == kStarted ? kFresh : kTurns) + 1);
    for (FiberEntity* fiber : f) policy.Push(fiber, reason, 0);
    EXPECT_EQ(policy.Size(), f.size());
    EXPECT_EQ(policy.OverflowCount(), 0u);
    // Another worker gets them without taking them from that one.
    std::set<FiberEntity*> moved;
    while (FiberEntity* fiber = Pop(policy, 1)) moved.insert(fiber);
    EXPECT_EQ(moved, std::set<FiberEntity*>(f.begin(), f.begin() + kMoved));
    while (Pop(policy, 0) != nullptr) {
    }
  }
}

TEST_F(PolicyV2Test, ANewFiberIsRefusedWhenItsWorkerAndTheGlobalQueueAreFullButAReadyOneNever) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(kFresh + 17 + 2 * kTurns);
  std::size_t next = 0;
  while (next < kFresh + 16) ASSERT_TRUE(policy.TryPushNew(f[next++], 0));
  EXPECT_TRUE(policy.Full());
  EXPECT_FALSE(policy.TryPushNew(f[next], 0));
  EXPECT_FALSE(policy.TryPushNew(f[next], kNoWorker));
  EXPECT_EQ(policy.OverflowCount(), 0u);
  while (next < f.size()) policy.Push(f[next++], kStarted, 0);
  EXPECT_EQ(policy.Size(), f.size());
  std::set<FiberEntity*> popped;
  while (FiberEntity* fiber = Pop(policy, 0)) EXPECT_TRUE(popped.insert(fiber).second);
  EXPECT_EQ(popped.size(), f.size());
}

TEST_F(PolicyV2Test, TheOldestFiberIsServedThoughThereIsAlwaysANewerOne) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto old = NewFibers(3);
  for (FiberEntity* fiber : old) policy.Push(fiber, kStarted, 0);
  FiberEntity* chain = New();
  for (FiberEntity* expected : old) {
    EXPECT_EQ(Insist([&]() -> FiberEntity* {
                policy.Push(chain, kStarted, 0);
                FiberEntity* fiber = Pop(policy, 0);
                if (fiber == chain) return nullptr;
                EXPECT_EQ(Pop(policy, 0), chain);
                return fiber;
              }),
              expected);
  }
}

TEST_F(PolicyV2Test, WhatWaitsAtAWorkerThatRunsAFiberForLongIsTakenThoughNobodyIsIdle) {
  for (const ReadyReason reason : {kStarted, kYielded, kWoken}) {
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
    (void)Pop(policy, 0);  // It was there once.
    FiberEntity* stuck = New();
    policy.Push(stuck, reason, 0);  // And worker 0 does not come back.
    FiberEntity* busy = New();
    policy.Push(busy, kYielded, 1);
    EXPECT_EQ(Insist([&]() -> FiberEntity* {
                FiberEntity* fiber = Pop(policy, 1);
                if (fiber == stuck) return fiber;
                policy.Push(fiber, kYielded, 1);
                return nullptr;
              }),
              stuck);
    EXPECT_EQ(Pop(policy, 1), busy);
  }
}

// It counted as idle each time, and never looked.
TEST_F(PolicyV2Test, WhatWaitsAtAWorkerThatRunsAFiberForLongIsTakenByOneThatHasASingleFiber) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  (void)Pop(policy, 0);
  FiberEntity* stuck = New();
  policy.Push(stuck, kStarted, 0);  // And worker 0 does not come back.
  EXPECT_EQ(Insist([&] { return Pop(policy, 1); }), stuck);
}

// 61 picks of fibers that run for a millisecond would be 61 ms.
TEST_F(PolicyV2Test, WhereFibersRunForLongTheGlobalQueueIsLookedAtMoreOften) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) policy.Push(fiber, kYielded, 0);
  auto run_next = [&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < until) {
    }
    FiberEntity* fiber = Pop(policy, 0);
    policy.Push(fiber, kYielded, 0);
    return fiber;
  };
  for (int i = 0; i < 70; ++i) run_next();
  FiberEntity* outside = New();
  ASSERT_TRUE(policy.TryPushNew(outside, kNoWorker));
  int picks = 1;
  while (run_next() != outside) ASSERT_LT(++picks, 8);
  while (Pop(policy, 0) != nullptr) {
  }
}

// While it had them in its hand nobody saw them, and who was about to sleep sleeps.
TEST_F(PolicyV2Test, AWorkerThatTookMoreThanOneFromTheQueueSaysSo) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto f = NewFibers(200);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (std::size_t popped = 0; popped < f.size(); ++popped) {
    const auto visits = policy.CountsOf(0).visits;
    const auto fibers = policy.CountsOf(0).fibers;
    bool in_sight_again = false;
    ASSERT_NE(policy.Pop(0, &in_sight_again), nullptr);
    const bool took_several = policy.CountsOf(0).visits != visits && policy.CountsOf(0).fibers - fibers > 1;
    ASSERT_EQ(in_sight_again, took_several) << popped;
  }
  EXPECT_LT(policy.CountsOf(0).visits, f.size()) << "it took one at a time";
}

}  // namespace
}  // namespace weft::scheduling_group
