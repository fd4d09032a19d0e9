// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Without threads: the test is who pushes and who runs. Through a group: ready_wait_test.cc.

#include "weft/scheduling_group/watch/ready_waits.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "scheduling_group/policy_fixture.h"
#include "testing/manual_clock.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

class ReadyWaitsTest : public PolicyFixture {
 protected:
  void Stamp(FiberEntity* fiber) {
    countdown_.Set(1);
    ASSERT_TRUE(countdown_.Count());
    waits_.Stamp(fiber, sampler_, &countdown_);
  }
  WaitHistogram Of(unsigned worker) const {
    WaitHistogram histogram;
    waits_.recorders()[worker].AddTo(&histogram);
    return histogram;
  }
  bool IsOverloaded() const { return waits_.overload().overloaded(); }
  // A fiber a millisecond, for so long, each of which has waited for `wait`.
  void RunFibers(std::chrono::milliseconds time, std::chrono::nanoseconds wait, bool stolen = false) {
    FiberEntity* fiber = New();
    for (auto end = clock_.now() + time; clock_.now() < end; clock_.Advance(1ms)) {
      fiber->ready_stamp = {clock_.now() - wait, 0};
      stolen ? waits_.RecordStolen(0, fiber) : waits_.Record(0, fiber);
      waits_.Look(++turns_, 1);
    }
  }

  testing::ManualClock clock_;
  ReadyWaits waits_{2, -1, 5ms, clock_};
  PushSampler sampler_;
  PushCountdown countdown_;
  std::uint64_t turns_ = 0;
};

// RW1
TEST_F(ReadyWaitsTest, AWaitIsCountedOnceByTheWorkerThatRunsTheFiber) {
  FiberEntity* fiber = New();
  Stamp(fiber);
  ASSERT_TRUE(fiber->ready_stamp);
  clock_.Advance(3us);
  waits_.Record(1, fiber);
  EXPECT_FALSE(fiber->ready_stamp);
  EXPECT_EQ(Of(1).samples(), 1u);
  EXPECT_EQ(Of(1).max(), 3us);
  EXPECT_EQ(Of(0).samples(), 0u);
}

TEST_F(ReadyWaitsTest, AStolenFibersWaitIsCountedToo) {
  FiberEntity* fiber = New();
  Stamp(fiber);
  clock_.Advance(3us);
  waits_.RecordStolen(0, fiber);
  EXPECT_FALSE(fiber->ready_stamp);
  EXPECT_EQ(Of(0).max(), 3us);
  EXPECT_EQ(waits_.recorders()[0].fibers_own(), 0u);
}

// RW2: a fiber that found no stack.
TEST_F(ReadyWaitsTest, AFiberThatIsPushedAgainWithoutHavingRunWaitsOn) {
  FiberEntity* fiber = New();
  Stamp(fiber);
  clock_.Advance(3us);
  Stamp(fiber);
  clock_.Advance(4us);
  waits_.Record(0, fiber);
  EXPECT_EQ(Of(0).max(), 7us);
}

TEST_F(ReadyWaitsTest, AFiberWhoseSpawnerHasWaitedBeginsToWait) {
  FiberEntity* fiber = New();
  Stamp(fiber);
  clock_.Advance(1s);
  waits_.RestartWait(fiber);
  clock_.Advance(4us);
  waits_.Record(0, fiber);
  EXPECT_EQ(Of(0).max(), 4us);
  waits_.RestartWait(fiber);  // It is no sample now, and does not become one.
  EXPECT_FALSE(fiber->ready_stamp);
}

TEST_F(ReadyWaitsTest, LongWaitsOverloadTheGroupUntilNothingIsReady) {
  RunFibers(50ms, 6ms);
  EXPECT_FALSE(IsOverloaded()) << "a burst";
  RunFibers(200ms, 6ms);
  EXPECT_TRUE(IsOverloaded());
  EXPECT_EQ(waits_.overload().times(), 1u);
  waits_.Look(turns_, 0);
  EXPECT_FALSE(IsOverloaded());
}

// RW3
TEST_F(ReadyWaitsTest, WaitsOfStolenFibersDoNotOverloadTheGroup) {
  RunFibers(500ms, 6ms, /*stolen=*/true);
  EXPECT_FALSE(IsOverloaded());
}

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::ManualClock;

constexpr auto kLimit = 10ms;
constexpr auto kShort = 1ms;
constexpr auto kLong = 11ms;

class OverloadDetectorTest : public ::testing::Test {
 protected:
  // A fiber that waited so long runs now.
  void Sample(nanoseconds wait, std::uint64_t fibers = 1, std::size_t worker = 0) {
    waits_[worker].Record(wait, fibers, detector_.IsLong(wait));
    turns_ += fibers;
    Look(1);
  }
  void Look(std::size_t ready) { detector_.Look(clock_.now(), turns_, ready); }
  // For that time fibers run that have waited so long, one each millisecond.
  void Run(nanoseconds duration, nanoseconds wait) {
    for (const auto end = clock_.now() + duration; clock_.now() < end;) {
      clock_.Advance(1ms);
      Sample(wait);
    }
  }

  ManualClock clock_;
  std::array<WaitRecorder, 2> waits_;
  std::uint64_t turns_ = 0;
  OverloadDetector detector_{kLimit, waits_};
};

TEST_F(OverloadDetectorTest, ShortWaitsAreNoOverload) {
  Run(10s, kShort);
  EXPECT_FALSE(detector_.overloaded());
  EXPECT_EQ(detector_.times(), 0u);
}

TEST_F(OverloadDetectorTest, ABurstRefusesNobody) {
  for (int i = 0; i < 20; ++i) {
    Run(100ms, kShort);
    Run(70ms, kLong);
    ASSERT_FALSE(detector_.overloaded()) << i;
  }
}

TEST_F(OverloadDetectorTest, LongWaitsForAnIntervalAreOverload) {
  Run(1s, kShort);
  Run(OverloadDetector::kInterval + 2 * OverloadDetector::kSlot, kLong);
  EXPECT_TRUE(detector_.overloaded());
  EXPECT_EQ(detector_.times(), 1u);
}

TEST_F(OverloadDetectorTest, TheFirstGoodSlotEndsIt) {
  Run(200ms, kLong);
  ASSERT_TRUE(detector_.overloaded());
  Run(3 * OverloadDetector::kSlot, kShort);
  EXPECT_FALSE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, ItComesBackAtOnceIfLoadDoes) {
  Run(200ms, kLong);
  Run(3 * OverloadDetector::kSlot, kShort);
  ASSERT_FALSE(detector_.overloaded());
  Run(2 * OverloadDetector::kSlot, kLong);
  EXPECT_TRUE(detector_.overloaded());
  EXPECT_EQ(detector_.times(), 2u);
}

TEST_F(OverloadDetectorTest, AfterAWhileABurstIsABurstAgain) {
  Run(200ms, kLong);
  Run(OverloadDetector::kRelapse + 100ms, kShort);
  Run(70ms, kLong);
  EXPECT_FALSE(detector_.overloaded());
}

// One fiber from the queue after each 16 that were handed the worker.
TEST_F(OverloadDetectorTest, HandOffsDoNotHideTheQueue) {
  for (int i = 0; i < 40; ++i) {
    clock_.Advance(10ms);
    for (int h = 0; h < 16 * 5; ++h) Sample(100ns);
    for (int q = 0; q < 5; ++q) Sample(kLong);
  }
  EXPECT_TRUE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, AFewFibersThatWaitLongAreTolerated) {
  for (int i = 0; i < 400; ++i) {
    clock_.Advance(1ms);
    Sample(kLong);
    for (std::uint64_t s = 0; s < OverloadDetector::kTolerated; ++s) Sample(kShort);
  }
  EXPECT_FALSE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, SamplesCountForWhatTheyStandFor) {
  for (int i = 0; i < 400; ++i) {
    clock_.Advance(1ms);
    Sample(kLong);
    Sample(kShort, 512);
  }
  EXPECT_FALSE(detector_.overloaded());
  for (int i = 0; i < 400; ++i) {
    clock_.Advance(1ms);
    Sample(kLong, 512, 1);
    Sample(kShort, 512);
  }
  EXPECT_TRUE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, FibersThatRunForLongerThanASlotAreJudgedToo) {
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(150ms);
    Sample(kLong);
  }
  EXPECT_TRUE(detector_.overloaded());
}

// OD1, at once, though no time has passed since the last look.
TEST_F(OverloadDetectorTest, ItEndsWhenNothingIsReady) {
  Run(200ms, kLong);
  ASSERT_TRUE(detector_.overloaded());
  Look(0);
  EXPECT_FALSE(detector_.overloaded());
  EXPECT_EQ(detector_.oldest(), 0ns);
}

TEST_F(OverloadDetectorTest, APauseInABurstBeginsANewOne) {
  for (int i = 0; i < 20; ++i) {
    Run(60ms, kLong);
    Look(0);
    ASSERT_FALSE(detector_.overloaded()) << i;
  }
}

// OD3. Nobody runs, so there is no sample.
TEST_F(OverloadDetectorTest, AGroupWhoseWorkersAreAllStuckIsOverloaded) {
  Run(1s, kShort);
  const auto begin = clock_.now();
  while (!detector_.overloaded()) {
    ASSERT_LT(clock_.now() - begin, kLimit + OverloadDetector::kInterval + 2 * OverloadDetector::kSlot);
    clock_.Advance(10ms);
    Look(130);
  }
  EXPECT_GE(clock_.now() - begin, kLimit + OverloadDetector::kInterval - OverloadDetector::kSlot);
  clock_.Advance(10s);
  Look(130);
  const nanoseconds oldest = detector_.oldest();
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(20ms);
    Look(130);
  }
  EXPECT_EQ(detector_.oldest(), oldest + 2s);
  for (int i = 0; i < 2; ++i) {  // They run. In the first slot the others seem to go on slowly.
    turns_ += 130;
    clock_.Advance(20ms);
    Look(1);
  }
  EXPECT_LE(detector_.oldest(), 1ms);
  EXPECT_FALSE(detector_.overloaded());
}

// Whose fibers run for longer than a slot, and of whose burst few are samples.
TEST_F(OverloadDetectorTest, AQueueThatHardlyMovesIsOverload) {
  for (int ready = 1000; ready > 900 && !detector_.overloaded(); --ready) {
    ++turns_;
    for (int i = 0; i < 6; ++i) {
      clock_.Advance(10ms);
      Look(static_cast<std::size_t>(ready));
    }
  }
  EXPECT_TRUE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, AQueueThatMovesFastIsNone) {
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(20ms);
    turns_ += 10'000;
    Look(3'000);  // 6 ms
    EXPECT_LE(detector_.oldest(), 6ms);
    ASSERT_FALSE(detector_.overloaded());
  }
}

// Each look comes in the middle of a burst that is over soon: all that waited at the last look have run since.
TEST_F(OverloadDetectorTest, ABurstAtEachLookIsNoOverload) {
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(20ms);
    turns_ += 1000;
    Look(700);
    EXPECT_EQ(detector_.oldest(), 0ns);
    ASSERT_FALSE(detector_.overloaded()) << i;
  }
}

TEST_F(OverloadDetectorTest, WhatHasJustComeIsNotOld) {
  for (int i = 0; i < 100; ++i) {
    clock_.Advance(20ms);
    Look(0);
    clock_.Advance(80ms);
    Look(1000);
    EXPECT_EQ(detector_.oldest(), 0ns);
  }
  EXPECT_EQ(detector_.times(), 0u);
}

TEST_F(OverloadDetectorTest, IsOffWithoutALimit) {
  OverloadDetector off(0ms, waits_);
  EXPECT_FALSE(off.IsLong(24h));
  for (int i = 0; i < 1000; ++i) {
    waits_[0].Record(1s, 1, /*long_wait=*/true);
    off.Look(clock_.Advance(20ms), 0, 1);
  }
  EXPECT_FALSE(off.overloaded());
  EXPECT_GT(off.oldest(), 10s) << "a metric";
}

}  // namespace
}  // namespace weft::scheduling_group
