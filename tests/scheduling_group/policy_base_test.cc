// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/policy/policy_base.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_entity.h"

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

struct SlotAndCount {
  bool Empty() const { return count == 0; }
  std::size_t Size() const { return count; }

  HandOffSlot slot;
  std::uint32_t hand_offs_in_a_row = 0;
  bool must_notify = false;
  QueueCounters counts;
  std::size_t count = 0;  // of fibers elsewhere
};

// The least that a policy adds.
class LeastPolicy final : public PolicyBase<SlotAndCount> {
 public:
  explicit LeastPolicy(unsigned workers) : PolicyBase({.workers = workers, .run_queue_size = 16}) {}

  void Push(FiberEntity* fiber, ReadyReason, int) override { global_.Push(fiber); }
  bool TryPushNew(FiberEntity* fiber, int) override { return global_.TryPush(fiber); }
  FiberEntity* Pop(unsigned worker, bool*) override { return TakeHandOff(QueuesOf(worker)); }
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override {
    return PopFromOthers(worker, memory, [this](SlotAndCount& from, SlotAndCount& own) {
      visits.emplace_back(&from, &own);
      return static_cast<FiberEntity*>(nullptr);
    });
  }
  FiberEntity* Steal(bool* must_notify) override { return IfForOthers(to_be_stolen, must_notify); }

  SlotAndCount& queues(unsigned worker) { return QueuesOf(worker); }

  std::vector<std::pair<SlotAndCount*, SlotAndCount*>> visits;
  FiberEntity* to_be_stolen = nullptr;
};

class PolicyBaseTest : public PolicyFixture {};

TEST_F(PolicyBaseTest, TheSlotIsServedSoManyTimesInARowThenOnceNot) {
  LeastPolicy policy(2);
  FiberEntity* fiber = New();
  for (int round = 0; round < 2; ++round) {
    for (std::uint32_t i = 0; i < kMaxHandOffs; ++i) {
      ASSERT_TRUE(policy.TryHandOffAndFence(fiber, 0));
      ASSERT_EQ(Pop(policy, 0), fiber);
    }
    ASSERT_TRUE(policy.TryHandOffAndFence(fiber, 0));
    EXPECT_EQ(Pop(policy, 0), nullptr);
    EXPECT_EQ(Pop(policy, 0), fiber) << "it stays where it is";
    EXPECT_EQ(Pop(policy, 0), nullptr) << "an empty slot begins a new row";
  }
}

TEST_F(PolicyBaseTest, AGroupOfOneHandsNothingOn) {
  LeastPolicy policy(1);
  EXPECT_FALSE(policy.TryHandOffAndFence(New(), 0));
}

TEST_F(PolicyBaseTest, AFiberInASlotIsWorkButNotForThieves) {
  LeastPolicy policy(2);
  EXPECT_FALSE(policy.HasWork());
  ASSERT_TRUE(policy.TryHandOffAndFence(New(), 1));
  EXPECT_TRUE(policy.HasWork());
  EXPECT_FALSE(policy.HasStealable());
  EXPECT_EQ(policy.Size(), 1u);

  policy.queues(0).count = 2;
  EXPECT_TRUE(policy.HasStealable());
  EXPECT_EQ(policy.Size(), 3u);
  policy.Push(New(), kStarted, kNoWorker);
  EXPECT_EQ(policy.Size(), 4u);
}

TEST_F(PolicyBaseTest, ASpinnerVisitsEachOtherWorkerOnceTheNextOneFirst) {
  LeastPolicy policy(3);
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), nullptr);
  const std::vector<std::pair<SlotAndCount*, SlotAndCount*>> expected = {{&policy.queues(2), &policy.queues(1)},
                                                                         {&policy.queues(0), &policy.queues(1)}};
  EXPECT_EQ(policy.visits, expected);

  LeastPolicy alone(1);
  EXPECT_EQ(alone.PopFromBusyWorkers(0, &memory), nullptr);
  EXPECT_TRUE(alone.visits.empty());
}

TEST_F(PolicyBaseTest, AGroupLocalFiberThatAThiefMeetsGoesToTheGlobalQueue) {
  LeastPolicy policy(2);
  bool must_notify = false;
  policy.to_be_stolen = New();
  EXPECT_EQ(policy.Steal(&must_notify), policy.to_be_stolen);
  EXPECT_FALSE(must_notify);
  EXPECT_EQ(policy.Size(), 0u);

  policy.to_be_stolen = New(/*local=*/true);
  EXPECT_EQ(policy.Steal(&must_notify), nullptr);
  EXPECT_TRUE(must_notify);
  EXPECT_EQ(policy.Size(), 1u);
}

TEST_F(PolicyBaseTest, ANotificationIsAskedForOnce) {
  LeastPolicy policy(2);
  policy.queues(1).must_notify = true;
  EXPECT_FALSE(policy.MustNotify(0));
  EXPECT_TRUE(policy.MustNotify(1));
  EXPECT_FALSE(policy.MustNotify(1));
}

TEST_F(PolicyBaseTest, ABatchBeyondTheRingWaitsInTheOverflowList) {
  LeastPolicy policy(2);
  EXPECT_TRUE(policy.HalfEmpty());
  const auto fibers = NewFibers(20);
  policy.PushBatch(fibers.data(), fibers.size(), kStarted, 0);
  EXPECT_TRUE(policy.Full());
  EXPECT_FALSE(policy.HalfEmpty());
  EXPECT_EQ(policy.Size(), 20u);
  EXPECT_EQ(policy.OverflowCount(), 4u);
}

}  // namespace
}  // namespace weft::scheduling_group
