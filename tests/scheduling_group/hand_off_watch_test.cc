// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The protocol is proven in tests/model/hand_off_slot_model.cc; here: when a watch begins and ends, and that the
// processor, and the kernel's fences, do what the model takes for granted.
#include "weft/scheduling_group/hand_off_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "weft/base/asymmetric_fence.h"
#include "weft/base/clock.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/park.h"
#include "weft/scheduling_group/policy_registry.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr unsigned kOwner = 0;
constexpr unsigned kWatcher = 1;
constexpr unsigned kThief = 2;

struct Desk {
  HandOffSlot slot;
};

class HandOffWatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!base::HasHeavyFence()) GTEST_SKIP() << "no membarrier(): slots are never watched";
  }

  HandOffSlot& slot() { return desks[kOwner].slot; }
  FiberEntity* Look(unsigned worker, SpinMemory* memory) {
    return watch.TakeNeglected(std::span<Desk>(desks), worker, memory);
  }
  void EndSpin(SpinMemory* memory) { watch.EndSpin(std::span<Desk>(desks), memory); }

  // Hands fibers over until the watcher watches. Both by this thread.
  void HandOverUntilWatched() {
    const auto limit = base::Deadline::After(seconds(30));
    while (!memory.watching && !limit.expired()) {
      for (int i = 0; i < 10; ++i) {
        ASSERT_TRUE(slot().TryFillAndFence(&fiber));
        ASSERT_EQ(slot().Take(), &fiber);
      }
      ASSERT_EQ(Look(kWatcher, &memory), nullptr);
    }
    ASSERT_TRUE(memory.watching);
  }
  // The slot is full, and stays so.
  FiberEntity* LookUntilTaken(unsigned worker, SpinMemory* memory) {
    const auto limit = base::Deadline::After(seconds(30));
    FiberEntity* taken = nullptr;
    while (taken == nullptr && !limit.expired()) taken = Look(worker, memory);
    return taken;
  }

  std::array<Desk, 3> desks;
  HandOffWatch watch;
  SpinMemory memory;
  FiberEntity fiber;
};

TEST_F(HandOffWatchTest, BeginsWhereFibersAreHandedOverWithoutPause) { HandOverUntilWatched(); }

TEST_F(HandOffWatchTest, DoesNotBeginWhereTheyAreHandedOverNowAndThen) {
  const auto end = base::Deadline::After(milliseconds(50));
  while (!end.expired()) {
    ASSERT_TRUE(slot().TryFillAndFence(&fiber));
    ASSERT_EQ(slot().Take(), &fiber);
    const auto seen_at = memory.sampled_at;
    while (memory.sampled_at == seen_at) ASSERT_EQ(Look(kWatcher, &memory), nullptr);
    ASSERT_FALSE(memory.watching);
  }
}

TEST_F(HandOffWatchTest, WhatIsNeglectedInAWatchIsTakenByTheWatcher) {
  HandOverUntilWatched();
  ASSERT_TRUE(slot().TryFillAndFence(&fiber));
  EXPECT_EQ(LookUntilTaken(kWatcher, &memory), &fiber);
  EXPECT_FALSE(memory.watching);
  EXPECT_EQ(slot().Take(), nullptr);
}

TEST_F(HandOffWatchTest, NobodyElseTakesWhatIsWatched) {
  HandOverUntilWatched();
  ASSERT_TRUE(slot().TryFillAndFence(&fiber));
  SpinMemory other;
  const auto end = base::Deadline::After(milliseconds(5));
  while (!end.expired()) {
    ASSERT_EQ(Look(kThief, &other), nullptr);
    ASSERT_EQ(watch.TryTake(&slot()), nullptr);
  }
  EXPECT_FALSE(other.watching);
  EndSpin(&memory);
  EXPECT_EQ(watch.TryTake(&slot()), &fiber);
}

TEST_F(HandOffWatchTest, EndsWhenTheWatcherStopsSpinningAndMayBeginAgain) {
  for (int i = 0; i < 3; ++i) {
    HandOverUntilWatched();
    EndSpin(&memory);
    ASSERT_FALSE(memory.watching);
    memory.Forget();
    ASSERT_TRUE(slot().TryFillAndFence(&fiber));
    SpinMemory other;
    ASSERT_EQ(LookUntilTaken(kThief, &other), &fiber);
  }
}

// A worker that hands fibers over as fast as it can and now and then leaves one; others that look, watch, stop in the
// middle, and take. Each fiber is taken once.
TEST_F(HandOffWatchTest, EachFiberIsTakenOnceWhileWatchesComeAndGo) {
  constexpr int kFibers = 64;
  std::vector<FiberEntity> fibers(kFibers);
  std::vector<std::atomic<int>> out(kFibers);  // 1: in the slot
  std::atomic<bool> stop{false};
  std::atomic<int> watches{0};
  std::atomic<int> taken_by_others{0};
  const auto taken = [&](FiberEntity* fiber) {
    if (fiber == nullptr) return false;
    EXPECT_EQ(out[fiber - fibers.data()].exchange(0, std::memory_order_relaxed), 1) << "taken twice";
    return true;
  };
  std::thread owner([&] {
    std::minstd_rand random(1);
    for (int i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      const int next = i % kFibers;
      if (out[next].load(std::memory_order_relaxed) != 0) continue;
      out[next].store(1, std::memory_order_relaxed);
      if (!slot().TryFillAndFence(&fibers[next])) {
        out[next].store(0, std::memory_order_relaxed);
      } else if (random() % 50'000 == 0) {
        // It runs a long fiber.
        const auto end = base::Deadline::After(std::chrono::microseconds(random() % 20));
        while (!end.expired()) base::CpuRelax();
      }
      taken(slot().Take());
    }
  });
  std::vector<std::thread> others;
  for (unsigned worker : {kWatcher, kThief}) {
    others.emplace_back([&, worker] {
      std::minstd_rand random(worker + 1);
      SpinMemory own;
      while (!stop.load(std::memory_order_relaxed)) {
        own.Forget();
        const auto end = base::Deadline::After(std::chrono::microseconds(random() % 5'000));
        bool watched = false;
        while (!end.expired() && !stop.load(std::memory_order_relaxed)) {
          const bool found = taken(Look(worker, &own));
          taken_by_others.fetch_add(found, std::memory_order_relaxed);
          watched |= own.watching;
          if (found) break;
        }
        EndSpin(&own);
        watches.fetch_add(watched, std::memory_order_relaxed);
        taken_by_others.fetch_add(taken(watch.TryTake(&slot())), std::memory_order_relaxed);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
      }
    });
  }
  const auto limit = base::Deadline::After(seconds(60));
  while ((watches.load() < 100 || taken_by_others.load() < 100) && !limit.expired() && !HasFailure()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  stop = true;
  owner.join();
  for (std::thread& other : others) other.join();
  taken(slot().Take());
  for (const auto& in_slot : out) EXPECT_EQ(in_slot.load(), 0) << "lost";
  EXPECT_GE(watches.load(), 100);
  EXPECT_GE(taken_by_others.load(), 100);
}

// --- In a group ---

// As the policy under test, but it notes which workers look after others' slots and have not said that they stop.
class NotesSpins final : public SchedulingPolicy {
 public:
  explicit NotesSpins(const Options& options)
      : policy_(CreateSchedulingPolicy(testing::PolicyUnderTest(), options)), spins_(options.workers) {}

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override { policy_->Push(fiber, reason, worker); }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override {
    policy_->PushBatch(fibers, count, reason, worker);
  }
  bool TryPushNew(FiberEntity* fiber, int worker) override { return policy_->TryPushNew(fiber, worker); }
  FiberEntity* Pop(unsigned worker, bool* in_sight_again) override { return policy_->Pop(worker, in_sight_again); }
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override {
    spins_[worker].store(memory);
    ++looks;
    return policy_->PopFromBusyWorkers(worker, memory);
  }
  void EndSpin(SpinMemory* memory) override {
    for (std::atomic<SpinMemory*>& own : spins_) {
      if (own.load() == memory) own.store(nullptr);
    }
    policy_->EndSpin(memory);
  }
  FiberEntity* Steal(bool* in_sight_again) override { return policy_->Steal(in_sight_again); }
  bool HasWork() const override { return policy_->HasWork(); }
  bool HasStealable() const override { return policy_->HasStealable(); }
  bool Full() const override { return policy_->Full(); }
  bool HalfEmpty() const override { return policy_->HalfEmpty(); }
  std::size_t Size() const override { return policy_->Size(); }
  std::size_t OverflowCount() const override { return policy_->OverflowCount(); }

  std::size_t WhoHaveNotEnded() const {
    return static_cast<std::size_t>(
        std::count_if(spins_.begin(), spins_.end(), [](const auto& own) { return own.load() != nullptr; }));
  }

  static inline std::atomic<int> looks{0};

 private:
  const std::unique_ptr<SchedulingPolicy> policy_;
  std::vector<std::atomic<SpinMemory*>> spins_;  // of each worker: what it looks with
};

TEST(HandOffWatchInAGroup, WhoStopsSpinningSaysSoWhetherItFoundAFiberOrNot) {
  static NotesSpins* policy = nullptr;
  ASSERT_TRUE(RegisterSchedulingPolicy("notes spins", [](const SchedulingPolicy::Options& options) {
    auto made = std::make_unique<NotesSpins>(options);
    policy = made.get();
    return made;
  }));
  constexpr unsigned kWorkers = 3;
  testing::WorkerGroup group({.workers = kWorkers, .policy = "notes spins"});
  const auto all_sleep = [&] { return group.group().idle_workers().sleepers().Count() == kWorkers; };
  for (int round = 0; round < 100; ++round) {
    testing::Countdown done(1);
    ASSERT_TRUE(group.Start([&] { done.Done(); }));
    ASSERT_TRUE(done.Wait());
    while (!all_sleep()) std::this_thread::yield();
    ASSERT_EQ(policy->WhoHaveNotEnded(), 0u) << "workers sleep that still look after the slots of others";
  }
  EXPECT_GT(NotesSpins::looks.load(), 0);
}

// One of two fibers that wake each other.
class Player {
 public:
  // The fiber itself.
  void Wait() {
    FiberEntity* self = CurrentFiber();
    PrepareToPark(self);
    parked_.store(self, std::memory_order_release);
    ParkPrepared(self);
  }
  // The other one.
  void Wake() {
    FiberEntity* fiber;
    while ((fiber = parked_.exchange(nullptr, std::memory_order_acquire)) == nullptr) base::CpuRelax();
    Unpark(fiber);
  }

 private:
  std::atomic<FiberEntity*> parked_{nullptr};
};

// After some milliseconds of ping-pong, when the other worker watches, one of the two is woken by the other, which goes
// on for long; and then all is over, until the next time. Would the watcher not stop being the keeper of the slots, in
// the one case or the other, the fiber would never run.
TEST(HandOffWatchInAGroup, AFiberThatIsLeftInItsSlotAfterPingPongIsRunByTheOtherWorker) {
  testing::WorkerGroup group(2);
  for (int round = 0; round < 30; ++round) {
    Player ping;
    Player pong;
    std::atomic<bool> over{false};
    std::atomic<bool> pong_ran{false};
    testing::Countdown ended(2);
    ASSERT_TRUE(group.Start([&] {
      const auto end = base::Deadline::After(milliseconds(5));
      while (!end.expired()) {
        for (int i = 0; i < 100; ++i) {
          pong.Wake();
          ping.Wait();
        }
      }
      over = true;
      pong.Wake();
      // Half of the times it goes on until the other worker has run the other fiber.
      const auto limit = base::Deadline::After(seconds(30));
      while (round % 2 == 0 && !pong_ran.load() && !limit.expired()) base::CpuRelax();
      EXPECT_TRUE(round % 2 != 0 || pong_ran.load()) << "round " << round;
      ended.Done();
    }));
    ASSERT_TRUE(group.Start([&] {
      for (;;) {
        pong.Wait();
        if (over) break;
        ping.Wake();
      }
      pong_ran = true;
      ended.Done();
    }));
    ASSERT_TRUE(ended.Wait());
    group.Drain();
  }
}

}  // namespace
}  // namespace weft::scheduling_group
