// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Without threads: the test is who pushes and who runs. Through a group: ready_wait_test.cc.

#include "weft/scheduling_group/watch/ready_waits.h"

#include <chrono>

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

}  // namespace
}  // namespace weft::scheduling_group
