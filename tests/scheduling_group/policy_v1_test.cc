// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy_v1.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/policy_registry.h"

namespace weft::scheduling_group {
namespace {

class PolicyV1Test : public ::testing::Test {
 protected:
  FiberEntity* New(bool local = false) {
    FiberEntity* fiber = NewFiber(nullptr, {.group_local = local}, [] {});
    fibers_.push_back(fiber);
    return fiber;
  }
  std::vector<FiberEntity*> NewFibers(std::size_t n) {
    std::vector<FiberEntity*> made;
    for (std::size_t i = 0; i < n; ++i) made.push_back(New());
    return made;
  }
  void TearDown() override {
    for (FiberEntity* fiber : fibers_) DiscardFiber(fiber);
  }

  static constexpr auto kStarted = ReadyReason::kStarted;
  static constexpr auto kWoken = ReadyReason::kWoken;
  static constexpr int kNoWorker = SchedulingPolicy::kNoWorker;

  static FiberEntity* Pop(PolicyV1& policy, unsigned worker) {
    bool in_sight_again = false;
    return policy.Pop(worker, &in_sight_again);
  }

 private:
  std::vector<FiberEntity*> fibers_;
};

TEST_F(PolicyV1Test, AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady) {
  PolicyV1 policy({.workers = 1, .run_queue_size = 4});
  const auto fibers = NewFibers(40);  // Beyond the ring: the order holds through the overflow list too.
  for (std::size_t i = 0; i < fibers.size(); ++i) {
    policy.Push(fibers[i],
                i % 3 == 0   ? kWoken
                : i % 3 == 1 ? kStarted
                             : ReadyReason::kYielded,
                i % 2 == 0 ? 0 : kNoWorker);
  }
  for (FiberEntity* fiber : fibers) EXPECT_EQ(Pop(policy, 0), fiber);
  EXPECT_EQ(Pop(policy, 0), nullptr);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV1Test, AFiberWokenByAFiberStaysOnItsWorkerAheadOfTheQueue) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(3);
  policy.Push(f[0], kStarted, 0);
  policy.Push(f[1], kWoken, 0);
  policy.Push(f[2], kWoken, 0);  // The slot is taken: queued.
  EXPECT_EQ(Pop(policy, 0), f[1]);
  EXPECT_EQ(Pop(policy, 0), f[0]);
  EXPECT_EQ(Pop(policy, 0), f[2]);
}

TEST_F(PolicyV1Test, AWorkerWithAFullSlotMakesTheGroupNotIdleAndASpinnerTakesTheFiberAfterItsPatience) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 16});
  FiberEntity* fiber = New();
  policy.Push(fiber, kWoken, 0);
  EXPECT_TRUE(policy.HasWork());
  EXPECT_EQ(Pop(policy, 1), nullptr);
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), nullptr) << "not at first sight";
  EXPECT_TRUE(memory.active);
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  FiberEntity* taken = nullptr;
  while (taken == nullptr && std::chrono::steady_clock::now() < limit) taken = policy.PopFromBusyWorkers(1, &memory);
  EXPECT_EQ(taken, fiber);
  EXPECT_FALSE(policy.HasWork());
}

// Each hand-off of a pair that passes messages called the neighbouring groups, which may not have what is in a slot.
TEST_F(PolicyV1Test, AHandOffSlotIsNothingForThieves) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 16});
  policy.Push(New(), kWoken, 0);
  EXPECT_TRUE(policy.HasWork());
  EXPECT_FALSE(policy.HasStealable());
  policy.Push(New(), kWoken, SchedulingPolicy::kNoWorker);
  EXPECT_TRUE(policy.HasStealable());
  EXPECT_NE(Pop(policy, 0), nullptr);
  EXPECT_NE(Pop(policy, 1), nullptr);
  EXPECT_FALSE(policy.HasStealable());
}

TEST_F(PolicyV1Test, PingPongThroughTheSlotDoesNotStarveTheQueue) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 16});
  FiberEntity* ping = New();
  FiberEntity* queued = New();
  policy.Push(queued, kStarted, kNoWorker);
  int hand_offs = 0;
  for (;;) {
    policy.Push(ping, kWoken, 0);
    FiberEntity* next = Pop(policy, 0);
    if (next == queued) break;
    ASSERT_EQ(next, ping);
    ASSERT_LT(++hand_offs, 100) << "the queued fiber starves";
  }
  EXPECT_EQ(Pop(policy, 0), ping);
}

// Short fibers: a worker takes several per visit, and brings several back, in order; an idle worker can take them from
// it.
TEST_F(PolicyV1Test, ABusyWorkersBatchIsInOrderAndOpenToAnIdleWorker) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 256});
  const auto f = NewFibers(200);
  for (FiberEntity* fiber : f) policy.Push(fiber, kStarted, kNoWorker);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(Pop(policy, 0), f[i]);  // Its batch has grown meanwhile.
  std::vector<FiberEntity*> left(f.begin() + 100, f.end());
  SpinMemory memory;
  FiberEntity* stolen = policy.PopFromBusyWorkers(1, &memory);
  ASSERT_NE(stolen, nullptr);
  std::erase(left, stolen);
  while (FiberEntity* fiber = Pop(policy, 1)) ASSERT_EQ(std::erase(left, fiber), 1u);
  while (FiberEntity* fiber = Pop(policy, 0)) ASSERT_EQ(std::erase(left, fiber), 1u);
  EXPECT_TRUE(left.empty());
  EXPECT_FALSE(policy.HasWork());
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

// In the peers a group-local fiber at the head of the queue stops all stealing.
TEST_F(PolicyV1Test, LocalFiberAtQueueHeadDoesNotBlockStealingAndIsNotStolen) {
  PolicyV1 policy({.workers = 2, .run_queue_size = 16});
  FiberEntity* local = New(/*local=*/true);
  FiberEntity* other = New();
  policy.Push(local, kStarted, kNoWorker);
  policy.Push(other, kStarted, kNoWorker);
  bool in_sight_again = false;
  EXPECT_EQ(policy.Steal(&in_sight_again), other);
  EXPECT_TRUE(in_sight_again) << "the local fiber was out of its workers' sight: they must be told";
  EXPECT_EQ(policy.Steal(&in_sight_again), nullptr);
  EXPECT_EQ(Pop(policy, 0), local);
}

TEST_F(PolicyV1Test, TheBoundedQueueRefusesNewFibersButNeverReadyOnes) {
  PolicyV1 policy({.workers = 1, .run_queue_size = 4});
  const auto f = NewFibers(10);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(policy.TryPushNew(f[i], kNoWorker));
  EXPECT_TRUE(policy.Full());
  EXPECT_FALSE(policy.TryPushNew(f[4], kNoWorker));
  for (int i = 4; i < 10; ++i) policy.Push(f[i], kWoken, kNoWorker);
  EXPECT_EQ(policy.Size(), 10u);
  EXPECT_EQ(policy.OverflowCount(), 6u);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(Pop(policy, 0), f[i]);
  EXPECT_TRUE(policy.HalfEmpty());
}

TEST_F(PolicyV1Test, ABatchLargerThanTheQueueIsKeptWholeAndInOrder) {
  PolicyV1 policy({.workers = 1, .run_queue_size = 8});
  const auto f = NewFibers(50);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (FiberEntity* fiber : f) EXPECT_EQ(Pop(policy, 0), fiber);
}

TEST(SchedulingPolicyRegistry, PoliciesAreFoundByNameAndNamesAreUnique) {
  EXPECT_NE(CreateSchedulingPolicy("v1", {}), nullptr);
  EXPECT_EQ(CreateSchedulingPolicy("no such", {}), nullptr);
  EXPECT_TRUE(RegisterSchedulingPolicy(
      "mine", [](const SchedulingPolicy::Options& options) { return std::make_unique<PolicyV1>(options); }));
  EXPECT_FALSE(RegisterSchedulingPolicy("v1", nullptr));
  EXPECT_NE(CreateSchedulingPolicy("mine", {}), nullptr);
}

}  // namespace
}  // namespace weft::scheduling_group
