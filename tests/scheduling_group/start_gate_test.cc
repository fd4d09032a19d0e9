// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The gate where spawners wait, on a group without threads: the test is its workers.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "weft/base/deadline.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/queue/start_when_full.h"

#include "testing/policy.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

// The steady clock, at which a spawner that has waited is held up before its second push: it stamps the fiber anew.
class HoldUpClock final : public base::Clock {
 public:
  TimePoint now() const noexcept override {
    if (is_spawner && ++looks == 2) {
      while (hold_up.load()) std::this_thread::yield();
    }
    return std::chrono::steady_clock::now();
  }
  static inline thread_local bool is_spawner = false;
  static inline thread_local int looks = 0;
  static inline std::atomic<bool> hold_up{false};
};
const HoldUpClock hold_up_clock;

// No test may come to its end: a spawner that has waited for so long looks once more.
constexpr auto kStartTimeout = 100s;

class StartGateTest : public ::testing::Test {
 protected:
  StartGateTest() {
    while (!group_.policy().Full()) EXPECT_TRUE(Start());
  }
  ~StartGateTest() override {
    if (spawner_.joinable()) spawner_.join();
    for (unsigned worker = 0; worker < group_.size(); ++worker) {
      while (FiberEntity* fiber = group_.PopFor(worker)) DiscardFiber(fiber);
    }
    EXPECT_FALSE(group_.policy().HasWork());
  }

  // A thread that starts one fiber more than there is room for; returns when it sleeps.
  void StartInAThread() {
    std::atomic<long> id{0};
    spawner_ = std::thread([&] {
      HoldUpClock::is_spawner = true;
      id.store(::syscall(SYS_gettid));
      started_ = Start();
    });
    while (id.load() == 0) std::this_thread::yield();
    std::string state;
    while (state != "S") {
      std::ifstream stat("/proc/self/task/" + std::to_string(id.load()) + "/stat");
      std::string word;
      stat >> word >> word >> state;
      std::this_thread::yield();
    }
  }
  bool SpawnerGotIn() {
    const auto begin = std::chrono::steady_clock::now();
    spawner_.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, kStartTimeout / 2) << "nobody woke it";
    return started_;
  }

  bool Start() {
    FiberEntity* fiber = NewFiber(&group_, {}, [] {});
    if (group_.Start(fiber)) return true;
    DiscardFiber(fiber);
    return false;
  }

  SchedulingGroup group_{{.workers = 2,
                          .policy = weft::testing::PolicyUnderTest(),
                          .run_queue_size = 16,
                          .start_timeout = kStartTimeout,
                          .clock = &hold_up_clock}};

 private:
  std::thread spawner_;
  bool started_ = false;
};

// --- The gate alone; all its interleavings: tests/model/start_gate_model.cc ---

constexpr auto kFull = [] { return true; };
constexpr auto kNotFull = [] { return false; };

TEST(StartGate, WhereThereIsCapacityNobodyWaits) {
  StartGate gate;
  EXPECT_TRUE(gate.WaitForCapacity(Deadline::None(), kNotFull));
  EXPECT_TRUE(gate.WaitForCapacity(0s, kNotFull));
}

TEST(StartGate, ASpawnerThatHasNoTimeLeftLooksOnce) {
  StartGate gate;
  int looks = 0;
  EXPECT_FALSE(gate.WaitForCapacity(0s, [&] {
    ++looks;
    return true;
  }));
  EXPECT_EQ(looks, 1);
}

TEST(StartGate, OneThatRefusesLetsNobodyInUntilItOpens) {
  StartGate gate;
  EXPECT_FALSE(gate.refusing());
  gate.Refuse();
  EXPECT_TRUE(gate.refusing());
  EXPECT_FALSE(gate.WaitForCapacity(Deadline::None(), kNotFull));
  EXPECT_FALSE(gate.WaitForCapacity(Deadline::None(), kFull));
  gate.Open();
  EXPECT_FALSE(gate.refusing());
  EXPECT_TRUE(gate.WaitForCapacity(Deadline::None(), kNotFull));
}

TEST(StartGate, WhileNobodyWaitsAPopDoesNotLookAtTheQueue) {
  StartGate gate;
  const auto must_not_look = [] {
    ADD_FAILURE() << "a cache line for nothing";
    return true;
  };
  gate.CapacityFreed(must_not_look);
  EXPECT_FALSE(gate.WaitForCapacity(0s, kFull));
  gate.CapacityFreed(must_not_look);  // The one that waited has gone.
}

// By the spawner itself, between its look and its sleep: then it does not sleep (GA1).
TEST(StartGate, CapacityThatIsFreedAfterTheLookKeepsTheSpawnerAwake) {
  StartGate gate;
  int looks = 0;
  EXPECT_TRUE(gate.WaitForCapacity(Deadline::None(), [&] {
    if (++looks == 2) return false;
    gate.CapacityFreed([] { return true; });
    return true;
  }));
  EXPECT_EQ(looks, 2);
}

// --- In a group ---

TEST_F(StartGateTest, ASpawnerThatWaitsIsRefusedWhenTheRuntimeEnds) {
  StartInAThread();
  group_.RefuseNewFibers();
  EXPECT_FALSE(SpawnerGotIn());
}

TEST_F(StartGateTest, ASpawnerThatWaitsIsLetInByAWorkersPops) {
  StartInAThread();
  while (!group_.policy().HalfEmpty()) DiscardFiber(group_.PopFor(0));
  EXPECT_TRUE(SpawnerGotIn());
}

TEST_F(StartGateTest, ASpawnerThatWaitsIsLetInByAThiefsPops) {
  StartInAThread();
  while (!group_.policy().HalfEmpty()) {
    FiberEntity* fiber = group_.PopForSteal(SchedulingGroup::kSameNode);
    ASSERT_NE(fiber, nullptr);
    DiscardFiber(fiber);
  }
  EXPECT_TRUE(SpawnerGotIn());
}

TEST_F(StartGateTest, WhatASpawnerPushesThatHasWaitedWakesAWorker) {
  HoldUpClock::hold_up = true;
  StartInAThread();
  while (!group_.policy().HalfEmpty()) DiscardFiber(group_.PopFor(0));
  group_.idle().PrepareSleep(1);
  HoldUpClock::hold_up = false;
  EXPECT_TRUE(SpawnerGotIn());
  EXPECT_FALSE(group_.idle().sleepers().Contains(1)) << "the worker sleeps, and a fiber is queued";
  EXPECT_TRUE(group_.worker_slot(1).parker.ParkUntil(std::chrono::steady_clock::now() + 60s));
}

}  // namespace
}  // namespace weft::scheduling_group
