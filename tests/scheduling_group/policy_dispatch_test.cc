// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The built-in policies, and two of a user's: one that has fast paths of its own, one that has none.

#include "weft/scheduling_group/policy/policy_dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scheduling_group/policy_fixture.h"
#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

// A user's policy: a queue under a lock.
class PlainPolicy : public SchedulingPolicy {
 public:
  explicit PlainPolicy(const Options& options) : capacity_(options.run_queue_size) {}

  void Push(FiberEntity* fiber, ReadyReason, int) override {
    std::lock_guard guard(mutex_);
    queue_.push_back(fiber);
  }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason, int) override {
    std::lock_guard guard(mutex_);
    queue_.insert(queue_.end(), fibers, fibers + count);
  }
  bool TryPushNew(FiberEntity* fiber, int worker) override {
    if (Full()) return false;
    Push(fiber, ReadyReason::kStarted, worker);
    return true;
  }
  FiberEntity* Pop(unsigned, bool*) override {
    std::lock_guard guard(mutex_);
    if (queue_.empty()) return nullptr;
    FiberEntity* fiber = queue_.front();
    queue_.pop_front();
    return fiber;
  }
  FiberEntity* PopFromBusyWorkers(unsigned, SpinMemory*) override { return nullptr; }
  FiberEntity* Steal(bool*) override { return nullptr; }
  bool HasWork() const override { return Size() != 0; }
  bool HasStealable() const override { return false; }
  bool Full() const override { return Size() >= capacity_; }
  bool HalfEmpty() const override { return Size() <= capacity_ / 2; }
  std::size_t Size() const override {
    std::lock_guard guard(mutex_);
    return queue_.size();
  }
  std::size_t OverflowCount() const override { return 0; }

 protected:
  void PushFirst(FiberEntity* fiber) {
    std::lock_guard guard(mutex_);
    queue_.push_front(fiber);
  }

 private:
  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::deque<FiberEntity*> queue_;
};

struct Calls {
  std::atomic<int> pushes{0};
  std::atomic<int> new_pushes{0};
  std::atomic<int> hand_offs{0};
} calls;

class FastPolicy final : public PlainPolicy {
 public:
  using PlainPolicy::PlainPolicy;

  void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) override {
    ++calls.pushes;
    PlainPolicy::PushAndFence(fiber, reason, worker);
  }
  bool TryPushNewAndFence(FiberEntity* fiber, int worker) override {
    ++calls.new_pushes;
    return PlainPolicy::TryPushNewAndFence(fiber, worker);
  }
  bool TryHandOffAndFence(FiberEntity* fiber, unsigned) noexcept override {
    ++calls.hand_offs;
    PushFirst(fiber);
    base::ThreadFence(std::memory_order_seq_cst);
    return true;
  }
};

const bool registered =
    RegisterSchedulingPolicy(
        "plain", [](const SchedulingPolicy::Options& options) { return std::make_unique<PlainPolicy>(options); }) &&
    RegisterSchedulingPolicy(
        "fast", [](const SchedulingPolicy::Options& options) { return std::make_unique<FastPolicy>(options); });

class PolicyDispatchTest : public PolicyFixture, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(registered);
    calls.pushes = 0;
    calls.new_pushes = 0;
    calls.hand_offs = 0;
  }
  FiberEntity* Pop(unsigned worker) {
    bool must_notify = false;
    return policy_.Pop(worker, &must_notify);
  }

  PolicyDispatch policy_{GetParam(), {.workers = 2, .run_queue_size = 4}};
};
INSTANTIATE_TEST_SUITE_P(Policies, PolicyDispatchTest, ::testing::Values("v1", "v2", "plain", "fast"),
                         [](const auto& info) { return std::string(info.param); });

// PD1
TEST_P(PolicyDispatchTest, WhatIsPushedIsPoppedOnce) {
  const auto f = NewFibers(3);
  ASSERT_TRUE(policy_.TryPushNewAndFence(f[0], kNoWorker));
  policy_.PushAndFence(f[1], kYielded, 0);
  EXPECT_TRUE(policy_->HasWork());
  EXPECT_TRUE((*policy_).HasWork());
  if (!policy_.TryHandOffAndFence(f[2], 0)) policy_.PushAndFence(f[2], kWoken, 0);
  std::vector<FiberEntity*> popped;
  for (int i = 0; i < 3; ++i) popped.push_back(Pop(0));
  std::sort(popped.begin(), popped.end());
  std::vector<FiberEntity*> all = f;
  std::sort(all.begin(), all.end());
  EXPECT_EQ(popped, all);
  EXPECT_EQ(Pop(0), nullptr);
  EXPECT_FALSE(policy_->HasWork());
}

TEST_P(PolicyDispatchTest, AFiberHandedOffIsNext) {
  const auto f = NewFibers(2);
  policy_.PushAndFence(f[0], kYielded, 0);
  const bool handed_off = policy_.TryHandOffAndFence(f[1], 0);
  EXPECT_EQ(handed_off, std::string("plain") != GetParam());
  if (!handed_off) policy_.PushAndFence(f[1], kWoken, 0);
  EXPECT_EQ(Pop(0), f[handed_off ? 1 : 0]);
  EXPECT_EQ(Pop(0), f[handed_off ? 0 : 1]);
}

TEST_P(PolicyDispatchTest, ANewFiberIsRefusedWhenTheQueueIsFull) {
  std::size_t pushed = 0;
  std::vector<FiberEntity*> refused{New()};
  while (policy_.TryPushNewAndFence(refused.back(), kNoWorker)) {
    ++pushed;
    ASSERT_LE(pushed, 64u);
    refused.push_back(New());
  }
  EXPECT_TRUE(policy_->Full());
  EXPECT_EQ(policy_->Size(), pushed);
  while (Pop(0) != nullptr) --pushed;
  EXPECT_EQ(pushed, 0u);
}

TEST(PolicyDispatch, ANameThatIsNobodysAborts) {
  EXPECT_DEATH(PolicyDispatch("nobody's", {}), "no scheduling policy is called \"nobody's\"");
}

class UsersPolicyTest : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Workers, UsersPolicyTest, ::testing::Values(1u, 2u, 4u));

// Fibers that wake each other, and yield.
void RunFibers(testing::WorkerGroup& group) {
  constexpr int kPairs = 100;
  testing::Countdown done(2 * kPairs);
  for (int i = 0; i < kPairs; ++i) {
    ASSERT_TRUE(group.Start([&] {
      FiberEntity* self = CurrentFiber();
      PrepareToPark(self);
      if (!group.Start([&, self] {
            YieldCurrentFiber();
            Unpark(self);
            done.Done();
          })) {
        ADD_FAILURE();
        Unpark(self);
      }
      ParkPrepared(self);
      done.Done();
    }));
  }
  EXPECT_TRUE(done.Wait());
}

TEST_P(UsersPolicyTest, AGroupUsesItsFastPaths) {
  calls.pushes = 0;
  calls.new_pushes = 0;
  calls.hand_offs = 0;
  testing::WorkerGroup group({.workers = GetParam(), .policy = "fast", .run_queue_size = 1024});
  RunFibers(group);
  group.Drain();
  EXPECT_EQ(calls.new_pushes, 200);
  EXPECT_GE(calls.hand_offs, 1);
  EXPECT_GE(calls.pushes, 1);
}

TEST_P(UsersPolicyTest, AGroupRunsFibersOfAPolicyThatHasNone) {
  testing::WorkerGroup group({.workers = GetParam(), .policy = "plain", .run_queue_size = 1024});
  RunFibers(group);
}

}  // namespace
}  // namespace weft::scheduling_group
