// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyContract: what every scheduling policy must do, a user's own, too. Derive the fixture of a policy's tests from
// it, and write a test for each of its functions, which calls it.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_POLICY_CONTRACT_H_
#define WEFT_TESTS_SCHEDULING_GROUP_POLICY_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/scheduling_policy.h"

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {

class PolicyContract : public PolicyFixture {
 protected:
  // Under which it is registered.
  virtual const char* PolicyName() const = 0;

  SchedulingPolicy& Make(unsigned workers, std::size_t run_queue_size) {
    policy_ = CreateSchedulingPolicy(PolicyName(), {.workers = workers, .run_queue_size = run_queue_size});
    return *policy_;
  }

  void AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady();
  void PingPongThroughTheSlotDoesNotStarveTheQueue();
  void TheBoundedQueueRefusesNewFibersButNeverReadyOnes();
  void ABatchLargerThanTheQueueIsKeptWholeAndInOrder();
  void WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt();
  void AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff();
  void LocalFibersAmongThoseThatAWorkerKeepsHideNoneFromOtherGroups();
  void EachFiberIsHandedOutOnceUnderLoad();

 private:
  std::unique_ptr<SchedulingPolicy> policy_;
};

inline void PolicyContract::AGroupOfOneWorkerRunsFibersInTheOrderInWhichTheyBecameReady() {
  SchedulingPolicy& policy = Make(1, 4);
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

// HS3. Neither the shared queue nor what the worker keeps.
inline void PolicyContract::PingPongThroughTheSlotDoesNotStarveTheQueue() {
  const std::pair<ReadyReason, int> kWaiting[] = {{kStarted, kNoWorker}, {kStarted, 0}, {kYielded, 0}};
  for (const auto& [reason, worker] : kWaiting) {
    SchedulingPolicy& policy = Make(2, 16);
    FiberEntity* ping = New();
    FiberEntity* queued = New();
    policy.Push(queued, reason, worker);
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
}

inline void PolicyContract::TheBoundedQueueRefusesNewFibersButNeverReadyOnes() {
  SchedulingPolicy& policy = Make(1, 4);
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

inline void PolicyContract::ABatchLargerThanTheQueueIsKeptWholeAndInOrder() {
  SchedulingPolicy& policy = Make(1, 8);
  const auto f = NewFibers(50);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (FiberEntity* fiber : f) EXPECT_EQ(Pop(policy, 0), fiber);
}

inline void PolicyContract::WhatAWorkerKeepsIsWorkAndAnIdleWorkerTakesIt() {
  for (const ReadyReason reason : {kStarted, kYielded, ReadyReason::kDisplaced, kWoken}) {
    SchedulingPolicy& policy = Make(2, 16);
    const auto f = NewFibers(100);
    for (FiberEntity* fiber : f) policy.Push(fiber, reason, 0);
    EXPECT_EQ(policy.Size(), 100u);
    SpinMemory memory;
    std::vector<FiberEntity*> left = f;
    while (policy.HasWork()) {
      FiberEntity* fiber = Insist([&] {
        FiberEntity* own = Pop(policy, 1);
        return own != nullptr ? own : policy.PopFromBusyWorkers(1, &memory);
      });
      ASSERT_EQ(std::erase(left, fiber), 1u);
    }
    EXPECT_TRUE(left.empty());
  }
}

// Ping-pong and yield loops on all workers: in a peer a fiber from outside waits for more than two seconds.
inline void PolicyContract::AFiberFromOutsideIsNotStarvedByFibersThatYieldOrHandOff() {
  for (const ReadyReason reason : {kYielded, kWoken}) {
    SchedulingPolicy& policy = Make(2, 4096);
    const auto busy = NewFibers(10);
    for (FiberEntity* fiber : busy) policy.Push(fiber, reason, 0);
    for (int i = 0; i < 1000; ++i) policy.Push(Pop(policy, 0), reason, 0);
    FiberEntity* outside = New();
    ASSERT_TRUE(policy.TryPushNew(outside, kNoWorker));
    int ticks = 0;
    for (FiberEntity* fiber; (fiber = Pop(policy, 0)) != outside; policy.Push(fiber, reason, 0)) {
      ASSERT_NE(fiber, nullptr);
      ASSERT_LT(++ticks, 300) << "it starves";
    }
    while (Pop(policy, 0) != nullptr) {
    }
  }
}

inline void PolicyContract::LocalFibersAmongThoseThatAWorkerKeepsHideNoneFromOtherGroups() {
  for (const ReadyReason reason : {kStarted, kYielded}) {
    SchedulingPolicy& policy = Make(2, 1024);
    std::vector<FiberEntity*> local;
    for (int i = 0; i < 200; ++i) {
      local.push_back(New(/*local=*/true));
      policy.Push(local.back(), reason, i % 3 == 0 ? kNoWorker : 0);
    }
    FiberEntity* other = New();
    policy.Push(other, reason, 0);
    bool must_notify = false;
    FiberEntity* stolen = nullptr;
    for (int i = 0; i < 20 && stolen == nullptr; ++i) stolen = policy.Steal(&must_notify);
    EXPECT_EQ(stolen, other);
    EXPECT_EQ(policy.Steal(&must_notify), nullptr);
    EXPECT_EQ(policy.Size(), local.size());
    while (FiberEntity* fiber = Pop(policy, 0)) ASSERT_EQ(std::erase(local, fiber), 1u);
    EXPECT_TRUE(local.empty());
  }
}

// Workers that push, pop and take from each other, a thread that pushes, another group that steals: small places, so
// that all of them overflow.
inline void PolicyContract::EachFiberIsHandedOutOnceUnderLoad() {
  constexpr unsigned kWorkers = 3;
  const int rounds = WEFT_TSAN || WEFT_ASAN ? 20'000 : 200'000;
  SchedulingPolicy& policy = Make(kWorkers, 16);
  std::vector<FiberEntity*> fibers;
  std::map<const FiberEntity*, std::size_t> index;
  for (std::size_t i = 0; i < 1500; ++i) {
    fibers.push_back(New(/*local=*/i % 5 == 0, /*priority=*/i % (FiberEntity::kMaxPriority + 1)));
    index[fibers[i]] = i;
  }
  std::vector<std::atomic<bool>> out(fibers.size());  // in somebody's hand
  auto taken = [&](FiberEntity* fiber) {
    ASSERT_FALSE(out[index.at(fiber)].exchange(true, std::memory_order_relaxed)) << "handed out twice";
  };
  auto push = [&](FiberEntity* fiber, int i, int worker) {
    ASSERT_TRUE(out[index.at(fiber)].exchange(false, std::memory_order_relaxed));
    constexpr ReadyReason kReasons[] = {kStarted, kYielded, kWoken, ReadyReason::kDisplaced};
    if (i % 4 == 0 && i % 3 == 0 && policy.TryPushNew(fiber, worker)) return;
    policy.Push(fiber, kReasons[i % 4], worker);
  };
  for (std::size_t i = 0; i < fibers.size(); ++i) {
    out[i] = true;
    push(fibers[i], static_cast<int>(i), kNoWorker);
  }
  std::atomic<int> left{rounds};
  std::vector<std::thread> threads;
  for (unsigned w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&, w] {
      SpinMemory memory;
      std::vector<FiberEntity*> hand;
      for (int i = static_cast<int>(w); left.fetch_sub(1, std::memory_order_relaxed) > 0; ++i) {
        FiberEntity* fiber = i % 64 == 0 ? nullptr : Pop(policy, w);
        if (fiber == nullptr) fiber = policy.PopFromBusyWorkers(w, &memory);
        if (fiber != nullptr) {
          taken(fiber);
          hand.push_back(fiber);
        }
        // Now a few at a time, now hundreds.
        const std::size_t keep = i % 2048 < 1024 ? 4 : 400;
        while (hand.size() > keep) {
          push(hand.back(), i, static_cast<int>(w));
          hand.pop_back();
        }
      }
      for (FiberEntity* fiber : hand) push(fiber, 1, static_cast<int>(w));
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; left.load(std::memory_order_relaxed) > 0; ++i) {
      bool must_notify = false;
      FiberEntity* fiber = policy.Steal(&must_notify);
      if (fiber == nullptr) continue;
      ASSERT_FALSE(fiber->group_local()) << "stolen";
      taken(fiber);
      push(fiber, i, kNoWorker);
    }
  });
  for (std::thread& thread : threads) thread.join();
  if (HasFatalFailure()) return;
  EXPECT_EQ(policy.Size(), fibers.size());
  std::size_t found = 0;
  for (unsigned w = 0; w < kWorkers; ++w) {
    for (; FiberEntity* fiber = Pop(policy, w); ++found) taken(fiber);
  }
  EXPECT_EQ(found, fibers.size()) << "a fiber is lost";
  EXPECT_FALSE(policy.HasWork());
}

}  // namespace weft::scheduling_group

#endif  // WEFT_TESTS_SCHEDULING_GROUP_POLICY_CONTRACT_H_
