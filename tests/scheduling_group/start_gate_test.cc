// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The gate where spawners wait, on a group without threads: the test is its workers.

#include "weft/scheduling_group/start_gate.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>

#include "weft/base/clock.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/fiber_factory.h"
#include "weft/scheduling_group/scheduling_group.h"

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
constexpr auto kStartTimeout = 20s;

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
  EXPECT_TRUE(group_.worker_slot(1).parker.ParkUntil(std::chrono::steady_clock::now() + 10s));
}

}  // namespace
}  // namespace weft::scheduling_group
