// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Without threads: the test is who pushes and who runs. Through a group: ready_wait_test.cc.

#include "weft/scheduling_group/watch/ready_waits.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

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
  bool IsOverloaded(bool nothing_is_ready = false) {
    return waits_.IsOverloaded([=] { return nothing_is_ready; });
  }
  // A fiber a millisecond, for so long, each of which has waited for `wait`.
  void RunFibers(std::chrono::milliseconds time, std::chrono::nanoseconds wait, bool stolen = false) {
    FiberEntity* fiber = New();
    for (auto end = clock_.now() + time; clock_.now() < end; clock_.Advance(1ms)) {
      fiber->ready_stamp = {clock_.now() - wait, 0};
      stolen ? waits_.RecordStolen(0, fiber) : waits_.Record(0, fiber);
    }
  }

  testing::ManualClock clock_;
  ReadyWaits waits_{2, -1, 5ms, clock_};
  PushSampler sampler_;
  PushCountdown countdown_;
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
  EXPECT_EQ(waits_.overloads(), 1u);
  waits_.OnNothingReady();
  EXPECT_FALSE(IsOverloaded());
}

TEST_F(ReadyWaitsTest, WithoutSamplesTheGroupIsAskedWhetherSomethingIsReady) {
  RunFibers(250ms, 6ms);
  ASSERT_TRUE(IsOverloaded(/*nothing_is_ready=*/true)) << "samples still come";
  clock_.Advance(1s);
  EXPECT_TRUE(IsOverloaded(/*nothing_is_ready=*/false));
  EXPECT_FALSE(IsOverloaded(/*nothing_is_ready=*/true));
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

bool NothingIsReady() { return true; }
bool FibersAreReady() { return false; }

class OverloadDetectorTest : public ::testing::Test {
 protected:
  // A fiber that waited so long runs now.
  void Sample(nanoseconds wait, std::uint64_t fibers = 1, std::size_t worker = 0) {
    waits_[worker].Record(wait, fibers, detector_.IsLong(wait));
    detector_.OnSample(clock_.now());
  }
  // For that time fibers run that have waited so long, one each millisecond.
  void Run(nanoseconds duration, nanoseconds wait) {
    for (const auto end = clock_.now() + duration; clock_.now() < end;) {
      clock_.Advance(1ms);
      Sample(wait);
    }
  }

  ManualClock clock_;
  std::array<WaitRecorder, 2> waits_;
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

// OD1: what was refused makes no samples.
TEST_F(OverloadDetectorTest, ItEndsWithoutSamples) {
  Run(200ms, kLong);
  ASSERT_TRUE(detector_.overloaded());
  EXPECT_TRUE(detector_.StillOverloaded(clock_.now(), NothingIsReady)) << "samples came just now";
  clock_.Advance(OverloadDetector::kInterval);
  EXPECT_TRUE(detector_.StillOverloaded(clock_.now(), FibersAreReady)) << "every worker is busy, for long";
  EXPECT_FALSE(detector_.StillOverloaded(clock_.now(), NothingIsReady));
  EXPECT_FALSE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, ItEndsWhenNothingIsReady) {
  Run(200ms, kLong);
  detector_.OnNothingReady(clock_.now());
  EXPECT_FALSE(detector_.overloaded());
}

TEST_F(OverloadDetectorTest, APauseInABurstBeginsANewOne) {
  for (int i = 0; i < 20; ++i) {
    Run(60ms, kLong);
    detector_.OnNothingReady(clock_.now());
    ASSERT_FALSE(detector_.overloaded()) << i;
  }
}

TEST_F(OverloadDetectorTest, IsOffWithoutALimit) {
  OverloadDetector off(0ms, waits_);
  EXPECT_FALSE(off.IsLong(24h));
  for (int i = 0; i < 1000; ++i) {
    waits_[0].Record(1s, 1, /*long_wait=*/true);
    off.OnSample(clock_.Advance(1ms));
  }
  EXPECT_FALSE(off.overloaded());
}

TEST_F(OverloadDetectorTest, IsAsNewWhenCleared) {
  Run(200ms, kLong);
  for (WaitRecorder& worker : waits_) worker.Clear();
  detector_.Clear();
  EXPECT_FALSE(detector_.overloaded());
  EXPECT_EQ(detector_.times(), 0u);
  Run(70ms, kLong);
  EXPECT_FALSE(detector_.overloaded()) << "no relapse";
  Run(70ms, kLong);
  EXPECT_TRUE(detector_.overloaded());
}

// Workers end slots, others sleep and ask, at the same time: whatever is left of it, it ends (OD1).
TEST(OverloadDetector, EndsWhoeverCameLast) {
  std::array<WaitRecorder, 2> waits;
  OverloadDetector detector(kLimit, waits);
  ManualClock clock;
  for (int round = 0; round < 200; ++round) {
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < waits.size(); ++w) {
      threads.emplace_back([&, w] {
        for (int i = 0; i < 100; ++i) {
          const auto now = clock.Advance(2ms);
          waits[w].Record(kLong, 1, /*long_wait=*/true);
          detector.OnSample(now);
        }
      });
    }
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) detector.OnNothingReady(clock.now());
    });
    for (std::thread& thread : threads) thread.join();
    clock.Advance(OverloadDetector::kInterval);
    ASSERT_FALSE(detector.overloaded() && detector.StillOverloaded(clock.now(), NothingIsReady));
    // And by samples.
    for (int i = 0; i < 3; ++i) {
      for (int s = 0; s < 1000; ++s) waits[0].Record(kShort, 1, /*long_wait=*/false);
      detector.OnSample(clock.Advance(OverloadDetector::kSlot));
    }
    ASSERT_FALSE(detector.overloaded());
  }
  EXPECT_GT(detector.times(), 0u);
}

}  // namespace
}  // namespace weft::scheduling_group
