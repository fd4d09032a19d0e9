// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_loop.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

class PolicyLoopTest : public PolicyFixture {
 protected:
  std::vector<FiberEntity*> PopAll() {
    std::vector<FiberEntity*> popped;
    while (FiberEntity* fiber = Pop(policy_, 0)) popped.push_back(fiber);
    return popped;
  }

  PolicyLoop policy_;
};

TEST_F(PolicyLoopTest, FirstInFirstOutWhoeverPushesAndWhy) {
  const std::vector<FiberEntity*> fibers = NewFibers(6);
  policy_.Push(fibers[0], kYielded, 0);
  EXPECT_TRUE(policy_.TryPushNew(fibers[1], kNoWorker));
  policy_.Push(fibers[2], kWoken, kNoWorker);
  EXPECT_EQ(Pop(policy_, 0), fibers[0]);
  policy_.PushBatch(fibers.data() + 3, 3, kStarted, 0);
  EXPECT_EQ(PopAll(), std::vector<FiberEntity*>(fibers.begin() + 1, fibers.end()));
}

TEST_F(PolicyLoopTest, CountsWhatIsQueuedAndWhatWasStarted) {
  const std::vector<FiberEntity*> fibers = NewFibers(4);
  EXPECT_FALSE(policy_.HasWork());
  policy_.PushBatch(fibers.data(), 2, kStarted, kNoWorker);
  EXPECT_TRUE(policy_.TryPushNew(fibers[2], 0));
  policy_.Push(fibers[3], kWoken, 0);
  policy_.CountStarted();
  EXPECT_EQ(policy_.started(), 4U);
  EXPECT_EQ(policy_.Size(), 4U);
  EXPECT_NE(Pop(policy_, 0), nullptr);
  EXPECT_EQ(policy_.Size(), 3U);
  PopAll();
  EXPECT_FALSE(policy_.HasWork());
  EXPECT_EQ(policy_.started(), 4U);
}

TEST_F(PolicyLoopTest, AHoldHidesWhatIsQueued) {
  FiberEntity* const fiber = New();
  policy_.Push(fiber, kWoken, 0);
  {
    const PolicyLoop::Hold hold(policy_);
    { const PolicyLoop::Hold inner(policy_); }
    EXPECT_EQ(Pop(policy_, 0), nullptr);
    EXPECT_TRUE(policy_.HasWork());
  }
  EXPECT_EQ(Pop(policy_, 0), fiber);
}

TEST_F(PolicyLoopTest, WhatFourThreadsPushIsPoppedOnceAndEachThreadsInItsOrder) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 5000;
  std::vector<std::vector<FiberEntity*>> fibers;
  for (std::size_t t = 0; t < kThreads; ++t) fibers.push_back(NewFibers(kEach));
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, &fibers, t] {
      for (FiberEntity* fiber : fibers[t]) policy_.Push(fiber, kWoken, kNoWorker);
    });
  }
  std::vector<std::size_t> next(kThreads, 0);
  for (std::size_t popped = 0; popped < kThreads * kEach; ++popped) {
    FiberEntity* const fiber = Insist([this] { return Pop(policy_, 0); });
    ASSERT_NE(fiber, nullptr);
    std::size_t from = 0;
    while (from < kThreads && (next[from] == kEach || fibers[from][next[from]] != fiber)) ++from;
    ASSERT_LT(from, kThreads) << "a fiber that comes twice, or before its turn";
    ++next[from];
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(policy_.HasWork());
}

}  // namespace
}  // namespace weft::scheduling_group
