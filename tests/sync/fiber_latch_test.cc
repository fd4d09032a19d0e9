// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_latch.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

// The fibers that count down and what the waiting fiber has on its stack do not share a line.
static_assert(alignof(FiberLatch) >= base::kCacheLineSize && sizeof(FiberLatch) % base::kCacheLineSize == 0);

class FiberLatchTest : public testing::OnAnyCrew {};

TEST_P(FiberLatchTest, OpensWhenTheCountIsZero) {
  FiberLatch latch(3);
  std::atomic<int> before{0};
  std::atomic<int> through{0};
  Crew crew = MakeCrew();
  crew.AddMany(5, [&](int) {
    latch.Wait();
    EXPECT_EQ(before, 2);
    ++through;
  });
  crew.Add([&] {
    EXPECT_FALSE(latch.TryWait());
    ++before;
    latch.CountDown();
    ++before;
    latch.CountDown(2);
    EXPECT_TRUE(latch.TryWait());
    latch.Wait();
  });
  crew.Join();
  EXPECT_EQ(through, 5);
}

TEST_P(FiberLatchTest, ArriveAndWaitIsABarrier) {
  constexpr int kActors = 6;
  FiberLatch latch(kActors);
  std::atomic<int> arrived{0};
  Crew crew = MakeCrew();
  crew.AddMany(kActors, [&](int) {
    ++arrived;
    latch.ArriveAndWait();
    EXPECT_EQ(arrived, kActors);
  });
  crew.Join();
}

TEST_P(FiberLatchTest, TimedWaitsTimeOutOrSucceed) {
  FiberLatch latch(1);
  std::atomic<int> timed_out{0};
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(latch.Wait(2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(latch.Wait(std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(latch.Wait(0ms));
    ++timed_out;
    EXPECT_TRUE(latch.Wait(std::chrono::hours::max()));
    EXPECT_TRUE(latch.Wait(std::chrono::steady_clock::now()));
  });
  crew.Add([&] {
    YieldUntil([&] { return timed_out == 3; });
    latch.CountDown();
  });
  crew.Join();
}

TEST_P(FiberLatchTest, WhatCountersDidIsVisibleToWaiters) {
  const int rounds = Scaled(500);
  constexpr int kCounters = 4;
  Crew crew = MakeCrew();
  for (int r = 0; r < rounds / 50 + 1; ++r) {
    auto latch = std::make_shared<FiberLatch>(kCounters);
    auto written = std::make_shared<std::array<int, kCounters>>();
    crew.AddMany(kCounters, [latch, written](int me) {
      (*written)[me] = me + 1;
      latch->CountDown();
    });
    crew.Add([latch, written] {
      latch->Wait();
      for (int i = 0; i < kCounters; ++i) EXPECT_EQ((*written)[i], i + 1);
    });
  }
  crew.Join();
}

// The waiter destroys the latch as soon as it may, while the last CountDown() is still on its way out. For ASan and
// TSan.
TEST_P(FiberLatchTest, LatchMayBeDestroyedWhileBeingSignalled) {
  const int rounds = Scaled(3000);
  std::atomic<FiberLatch*> offer{nullptr};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto latch = std::make_unique<FiberLatch>(2);
      offer = latch.get();
      latch->CountDown();
      switch (i % 3) {
        case 0:
          latch->Wait();
          break;
        case 1:
          EXPECT_TRUE(latch->Wait(1h));
          break;
        case 2:
          YieldUntil([&] { return latch->TryWait(); });
          break;
      }
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberLatch* latch = nullptr;
      YieldUntil([&] { return (latch = offer.exchange(nullptr)) != nullptr; });
      latch->CountDown();
    }
  });
  crew.Join();
}

TEST_P(FiberLatchTest, TimeOutsRaceWithTheLastCountDown) {
  const int rounds = Scaled(1500);
  std::atomic<FiberLatch*> offer{nullptr};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberLatch latch(1);
      offer = &latch;
      if (!latch.Wait(std::chrono::microseconds(i % 40))) latch.Wait();
      EXPECT_TRUE(latch.TryWait());
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberLatch* latch = nullptr;
      YieldUntil([&] { return (latch = offer.exchange(nullptr)) != nullptr; });
      for (int spin = i % 7; spin > 0; --spin) YieldActor();
      latch->CountDown();
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberLatchTest);

TEST(FiberLatch, OfZeroIsOpen) {
  const FiberLatch latch(0);
  EXPECT_TRUE(latch.TryWait());
  latch.Wait();
  EXPECT_TRUE(latch.Wait(0s));
}

TEST(FiberLatch, WorksBetweenThreadsWithoutARuntime) {
  FiberLatch latch(1);
  std::thread waiter([&] { latch.Wait(); });
  latch.CountDown();
  waiter.join();
}

TEST(FiberLatchDeathTest, CountingBelowZeroEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberLatch latch(2);
  EXPECT_DEATH(latch.CountDown(3), "3 from 2 would be below zero");
  EXPECT_DEATH(latch.CountDown(-1), "would be below zero");
  latch.CountDown(2);
  EXPECT_DEATH(latch.CountDown(), "1 from 0 would be below zero");
  EXPECT_DEATH(FiberLatch(-1), "bad count -1");
}

}  // namespace
}  // namespace weft
