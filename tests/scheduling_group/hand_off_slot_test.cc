// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The protocol is proven in tests/model/hand_off_slot_model.cc. Here: when a spinner takes a fiber, that the processor
// does what the model takes for granted, and slots in a group of workers.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/queue/worker_queues.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr unsigned kOwner = 0;
constexpr unsigned kSpinner = 1;
constexpr unsigned kOtherSpinner = 2;

struct WorkerQueues {
  HandOffSlot slot;
};

class HandOffSlotTest : public ::testing::Test {
 protected:
  HandOffSlot& slot() { return worker_queues[kOwner].slot; }
  // By the spinner, at `now`.
  FiberEntity* Look(unsigned worker = kSpinner) {
    return TakeNeglectedHandOff(std::span<WorkerQueues>(worker_queues), worker, now, &memory);
  }

  std::array<WorkerQueues, 3> worker_queues;
  SpinMemory memory;
  FiberEntity fiber;
  FiberEntity other;
  std::chrono::steady_clock::time_point now{seconds(1)};
};

TEST_F(HandOffSlotTest, HoldsOneFiberUntilItIsTaken) {
  EXPECT_EQ(slot().Take(), nullptr);
  EXPECT_TRUE(slot().TryFill(&fiber));
  EXPECT_FALSE(slot().TryFill(&other));
  EXPECT_FALSE(slot().TryFillAndFence(&other));
  EXPECT_TRUE(slot().Full());
  EXPECT_EQ(slot().Take(), &fiber);
  EXPECT_FALSE(slot().Full());
  EXPECT_TRUE(slot().TryFillAndFence(&other));
  EXPECT_EQ(slot().Take(), &other);
  EXPECT_EQ(slot().Take(), nullptr);
}

TEST_F(HandOffSlotTest, ASpinnerTakesAFiberThatItHasSeenForItsPatienceAndNotBefore) {
  ASSERT_TRUE(slot().TryFill(&fiber));
  EXPECT_EQ(Look(), nullptr) << "at first sight";
  now += kHandOffPatience - nanoseconds(1);
  EXPECT_EQ(Look(), nullptr);
  now += nanoseconds(1);
  EXPECT_EQ(Look(), &fiber);
  EXPECT_FALSE(slot().Full());
}

TEST_F(HandOffSlotTest, AFiberThatComesRightAfterALookIsTakenAfterTwicePatience) {
  EXPECT_EQ(Look(), nullptr);
  ASSERT_TRUE(slot().TryFill(&fiber));
  now += kHandOffPatience;
  EXPECT_EQ(Look(), nullptr);
  now += kHandOffPatience;
  EXPECT_EQ(Look(), &fiber);
}

// The same fiber, too: two that wake each other.
TEST_F(HandOffSlotTest, AFiberThatCameSinceTheLastLookIsNotTheOneSeenThen) {
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(i % 2 == 0 ? slot().TryFill(&fiber) : slot().TryFillAndFence(&fiber));
    EXPECT_EQ(Look(), nullptr);
    now += kHandOffPatience;
    ASSERT_EQ(slot().Take(), &fiber);
  }
}

TEST_F(HandOffSlotTest, ASpinnerLeavesItsOwnSlotAlone) {
  ASSERT_TRUE(slot().TryFill(&fiber));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(Look(kOwner), nullptr);
    EXPECT_FALSE(memory.active);
    now += kHandOffPatience;
  }
}

TEST_F(HandOffSlotTest, ASpinnerKnowsWhetherFibersAreHandedOff) {
  EXPECT_EQ(Look(), nullptr);
  EXPECT_FALSE(memory.active);
  ASSERT_TRUE(slot().TryFill(&fiber));
  ASSERT_EQ(slot().Take(), &fiber);
  now += kHandOffPatience;
  EXPECT_EQ(Look(), nullptr);
  EXPECT_TRUE(memory.active) << "one came and went";
  now += kHandOffPatience;
  EXPECT_EQ(Look(), nullptr);
  EXPECT_FALSE(memory.active);
  ASSERT_TRUE(slot().TryFill(&fiber));
  memory.Forget();
  EXPECT_EQ(Look(), nullptr);
  EXPECT_TRUE(memory.active) << "one is there";
}

// A worker that hands fibers off as fast as it can and now and then leaves one; spinners that take what is neglected,
// and others that take whatever there is.
TEST_F(HandOffSlotTest, EachFiberIsTakenOnceByItsWorkerOrByAnotherOne) {
  constexpr int kFibers = 64;
  std::vector<FiberEntity> fibers(kFibers);
  std::vector<std::atomic<int>> out(kFibers);  // 1: in the slot
  std::atomic<bool> stop{false};
  std::atomic<int> neglected{0};
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
      if (!(i % 2 == 0 ? slot().TryFill(&fibers[next]) : slot().TryFillAndFence(&fibers[next]))) {
        out[next].store(0, std::memory_order_relaxed);
      } else if (random() % 10'000 == 0) {
        // It runs a long fiber.
        const Deadline end = std::chrono::microseconds(random() % 20);
        while (!end.expired()) base::CpuRelax();
      }
      taken(slot().Take());
    }
  });
  std::vector<std::thread> others;
  for (unsigned worker : {kSpinner, kOtherSpinner}) {
    others.emplace_back([&, worker] {
      std::minstd_rand random(worker + 1);
      SpinMemory own;
      while (!stop.load(std::memory_order_relaxed)) {
        own.Forget();
        const Deadline end = std::chrono::microseconds(random() % 100);
        bool found = false;
        while (!found && !end.expired()) {
          found = taken(TakeNeglectedHandOff(std::span<WorkerQueues>(worker_queues), worker,
                                             std::chrono::steady_clock::now(), &own));
        }
        neglected.fetch_add(found, std::memory_order_relaxed);
        taken_by_others.fetch_add(taken(slot().Take()), std::memory_order_relaxed);
      }
    });
  }
  // A machine under load and a sanitizer gets 98 in the minute. All three threads compute until then.
  constexpr int kEnough = WEFT_ASAN || WEFT_TSAN ? 5 : 30;
  const Deadline limit = seconds(60);
  while ((neglected.load() < kEnough || taken_by_others.load() < kEnough) && !limit.expired() && !HasFailure()) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  stop = true;
  owner.join();
  for (std::thread& thread : others) thread.join();
  taken(slot().Take());
  for (const auto& in_slot : out) EXPECT_EQ(in_slot.load(), 0) << "lost";
  EXPECT_GE(neglected.load(), kEnough);
  EXPECT_GE(taken_by_others.load(), kEnough);
}

// --- In a group ---

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

// After some milliseconds of ping-pong one of the two is woken by the other, which half of the times goes on for as
// long as the first one has not run: the other worker must take it.
TEST(HandOffSlotInAGroup, AFiberThatIsLeftInItsSlotAfterPingPongIsRunByTheOtherWorker) {
  testing::WorkerGroup group(2);
  for (int round = 0; round < 30; ++round) {
    Player ping;
    Player pong;
    std::atomic<bool> over{false};
    std::atomic<bool> pong_ran{false};
    testing::Countdown ended(2);
    ASSERT_TRUE(group.Start([&] {
      const Deadline end = milliseconds(5);
      while (!end.expired()) {
        for (int i = 0; i < 100; ++i) {
          pong.Wake();
          ping.Wait();
        }
      }
      over = true;
      pong.Wake();
      const Deadline limit = seconds(30);
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
