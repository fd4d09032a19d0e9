// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What is v1's own; for the rest see policy_test.cc.

#include "weft/scheduling_group/policy/policy_v1.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

using PolicyV1Test = PolicyFixture;

// Short fibers: a worker takes several per visit, and brings several back, in order; an idle worker can take them from
// it.
TEST_F(PolicyV1Test, ABusyWorkersBatchIsInOrderAndOpenToAnIdleWorker) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 256});
  const auto f = NewFibers(200);
  for (FiberEntity* fiber : f) policy.Push(fiber, kStarted, kNoWorker);
  SpinMemory memory;
  FiberEntity* stolen = nullptr;
  std::size_t popped = 0;
  while (stolen == nullptr) {
    // A batch grows while visits come in quick succession. If this thread has lost its CPU meanwhile, it is 1 again.
    for (int i = 0; i < 37; ++i, ++popped) {
      ASSERT_LT(popped, f.size()) << "no batch has grown";
      ASSERT_EQ(Pop(policy, 0), f[popped]);
    }
    stolen = policy.PopFromBusyWorkers(1, &memory);
  }
  std::vector<FiberEntity*> left(f.begin() + static_cast<std::ptrdiff_t>(popped), f.end());
  std::erase(left, stolen);
  while (FiberEntity* fiber = Pop(policy, 1)) ASSERT_EQ(std::erase(left, fiber), 1u);
  while (FiberEntity* fiber = Pop(policy, 0)) ASSERT_EQ(std::erase(left, fiber), 1u);
  EXPECT_TRUE(left.empty());
  EXPECT_FALSE(policy.HasWork());
}

// Fibers were lost that found no room in the pop buffer.
TEST_F(PolicyV1Test, AWorkerThatTakesFromAnotherThoughItHasEnoughLosesNothing) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 256});
  std::vector<FiberEntity*> left = NewFibers(400);
  auto run = [&](FiberEntity* fiber) { ASSERT_EQ(std::erase(left, fiber), 1u); };
  policy.PushBatch(left.data(), 200, kStarted, kNoWorker);
  for (unsigned worker : {0u, 1u}) {
    for (int i = 0; i < 50; ++i) run(Pop(policy, worker));  // Both take large shares by now.
  }
  policy.PushBatch(left.data() + 100, 200, kStarted, kNoWorker);
  SpinMemory memory;
  for (int i = 0; i < 20; ++i) {
    run(Pop(policy, 0));
    run(Pop(policy, 1));  // Its pop buffer is about full.
    if (FiberEntity* fiber = policy.PopFromBusyWorkers(1, &memory)) run(fiber);
  }
  while (FiberEntity* fiber = Pop(policy, 0)) run(fiber);
  while (FiberEntity* fiber = Pop(policy, 1)) run(fiber);
  EXPECT_TRUE(left.empty());
}

TEST_F(PolicyV1Test, FibersThatAWorkerIsAboutToBringToTheQueueAreSeenAsWork) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 256});
  const auto f = NewFibers(100);
  for (FiberEntity* fiber : f) policy.Push(fiber, kStarted, kNoWorker);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Pop(policy, 0), f[i]);
  ASSERT_FALSE(policy.HasWork());
  policy.Push(f[0], ReadyReason::kYielded, 0);
  EXPECT_TRUE(policy.HasWork());
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), f[0]);
  EXPECT_FALSE(policy.HasWork());
}

// A worker's poll brings in requests; those that were brought in before have their turn first.
TEST_F(PolicyV1Test, FibersThatAWorkersPollWakesWaitInLine) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 4096});
  const auto f = NewFibers(200);
  policy.PushBatch(f.data(), 100, kStarted, kNoWorker);
  policy.PushBatch(f.data() + 100, 100, kWoken, 0);
  for (FiberEntity* fiber : f) EXPECT_EQ(Pop(policy, 0), fiber);
}

// A worker that the kernel had stopped after it had claimed slots, and before it had filled or left them, held up
// everybody's fibers, and made the ring look full: 400,000 fibers a second went through the list behind it.
TEST_F(PolicyV1Test, MoreBusyWorkersThanProcessorsNeverFindTheQueueFullThatIsNot) {
  constexpr unsigned kWorkers = 8;
  constexpr std::size_t kFibers = 8 * kWorkers;
  PolicyV1 policy({.workers = kWorkers, .run_queue_size = 2 * kFibers});
  const auto f = NewFibers(kFibers);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
      while (std::chrono::steady_clock::now() < until) {
        for (int i = 0; i < 1000; ++i) {
          FiberEntity* fiber = Pop(policy, w);
          if (fiber == nullptr) continue;
          const bool as_new = i % 2 == 0;
          if (as_new && policy.TryPushNew(fiber, static_cast<int>(w))) continue;
          refused += as_new ? 1 : 0;
          policy.Push(fiber, kYielded, static_cast<int>(w));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(policy.Size(), kFibers);
  EXPECT_EQ(policy.OverflowCount(), 0u);
  EXPECT_EQ(refused, 0) << "fibers would have been started depth first";
}

// V5. In its pop buffer, and in its push buffer.
TEST_F(PolicyV1Test, WhatWaitsAtAWorkerThatRunsAFiberForLongIsTakenThoughNobodyIsIdle) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 1024});
  std::vector<FiberEntity*> left = NewFibers(200);
  policy.PushBatch(left.data(), left.size(), kStarted, kNoWorker);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(std::erase(left, Pop(policy, 0)), 1u);  // Its batch has grown meanwhile.
  FiberEntity* started = New();
  left.push_back(started);
  policy.Push(started, kStarted, 0);  // And worker 0 does not come back.
  // The other one always has something to run.
  FiberEntity* yields = New();
  policy.Push(yields, kYielded, 1);
  while (!left.empty()) {
    FiberEntity* fiber = Insist([&]() -> FiberEntity* {
      FiberEntity* next = Pop(policy, 1);
      if (next != yields) return next;
      policy.Push(yields, kYielded, 1);
      return nullptr;
    });
    ASSERT_EQ(std::erase(left, fiber), 1u) << left.size() << " are left where they were";
  }
  EXPECT_EQ(Pop(policy, 1), yields);
}

// While it had them in its hand nobody saw them. With so many workers the fair share of what is there is one fiber.
TEST_F(PolicyV1Test, AWorkerThatBringsFibersToTheQueueSaysSo) {
  PolicyV1 policy({.workers = 64, .run_queue_size = 4096});
  const auto f = NewFibers(4000);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (int i = 0; i < 200; ++i) ASSERT_NE(Pop(policy, 0), nullptr);  // Its batch has grown meanwhile.
  for (unsigned worker : {0u, 1u}) {
    while (Pop(policy, worker) != nullptr) {
    }
  }
  ASSERT_FALSE(policy.HasWork());
  const auto brought = NewFibers(3);
  for (FiberEntity* fiber : brought) policy.Push(fiber, kStarted, 0);
  FiberEntity* other = New();
  policy.Push(other, kStarted, kNoWorker);
  bool must_notify = false;
  EXPECT_EQ(policy.Pop(0, &must_notify), other);
  EXPECT_TRUE(must_notify);
  for (FiberEntity* fiber : brought) EXPECT_EQ(Pop(policy, 1), fiber);
}

TEST_F(PolicyV1Test, APushThatBringsOthersToTheQueueSaysSo) {
  PolicyV1 policy({.workers = 64, .run_queue_size = 4096});
  const auto f = NewFibers(4000);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (int i = 0; i < 200; ++i) ASSERT_NE(Pop(policy, 0), nullptr);  // Its batch has grown meanwhile.
  const auto kept = NewFibers(16);
  for (FiberEntity* fiber : kept) policy.Push(fiber, kStarted, 0);
  EXPECT_FALSE(policy.MustNotify(0));
  policy.Push(New(), kStarted, 0);  // There is no room for it beside them.
  EXPECT_TRUE(policy.MustNotify(0));
  EXPECT_FALSE(policy.MustNotify(0));
  while (Pop(policy, 0) != nullptr) {
  }
}

// While it had them in its hand nobody saw them, and a worker that was about to sleep sleeps.
TEST_F(PolicyV1Test, AWorkerThatTookMoreThanOneFromTheQueueSaysSo) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 1024});
  const auto f = NewFibers(200);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (std::size_t popped = 0; popped < f.size(); ++popped) {
    const auto visits = policy.CountsOf(0).visits;
    const auto fibers = policy.CountsOf(0).fibers;
    bool must_notify = false;
    ASSERT_NE(policy.Pop(0, &must_notify), nullptr);
    const bool took_several = policy.CountsOf(0).visits != visits && policy.CountsOf(0).fibers - fibers > 1;
    ASSERT_EQ(must_notify, took_several) << popped;
  }
  EXPECT_LT(policy.CountsOf(0).visits, f.size()) << "it took one at a time";
}

}  // namespace
}  // namespace weft::scheduling_group
