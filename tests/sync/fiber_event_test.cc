// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_event.h"

#include <gtest/gtest.h>

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

class FiberEventTest : public testing::OnAnyCrew {};

TEST_P(FiberEventTest, SetLetsAllThroughThatWaitOrComeLater) {
  FiberEvent event;
  std::atomic<int> through{0};
  int payload = 0;
  EXPECT_FALSE(event.IsSet());
  Crew crew = MakeCrew();
  crew.AddMany(10, [&](int) {
    event.Wait();
    EXPECT_EQ(payload, 42);
    ++through;
  });
  crew.Add([&] {
    payload = 42;
    event.Set();
    event.Set();
  });
  crew.Join();
  EXPECT_EQ(through, 10);
  EXPECT_TRUE(event.IsSet());
  event.Wait();
}

TEST_P(FiberEventTest, TimedWaitsTimeOutOrSucceed) {
  FiberEvent event;
  std::atomic<int> timed_out{0};
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(event.Wait(2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(event.Wait(std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(event.Wait(0ms));
    ++timed_out;
    EXPECT_TRUE(event.Wait(std::chrono::hours::max()));
    EXPECT_TRUE(event.Wait(std::chrono::steady_clock::now()));
  });
  crew.Add([&] {
    YieldUntil([&] { return timed_out == 3; });
    event.Set();
  });
  crew.Join();
}

TEST_P(FiberEventTest, PingPongWithReset) {
  const int rounds = Scaled(5000);
  FiberEvent ping, pong;
  int token = 0;
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      ++token;
      pong.Set();
      ping.Wait();
      ping.Reset();
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      pong.Wait();
      pong.Reset();
      ++token;
      ping.Set();
    }
  });
  crew.Join();
  EXPECT_EQ(token, 2 * rounds);
}

// "Wait, reset, take the work": what was put down before a Set() is seen after the Reset() that undoes it.
TEST_P(FiberEventTest, ResetLosesNoWork) {
  const int items = Scaled(20'000);
  FiberEvent work_there;
  std::atomic<int> put{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < items; ++i) {
      put.fetch_add(1, std::memory_order_relaxed);
      work_there.Set();
      if (i % 64 == 0) YieldActor();
    }
  });
  crew.Add([&] {
    int taken = 0;
    while (taken != items) {
      work_there.Wait();  // Hangs if work was lost.
      work_there.Reset();
      taken += put.exchange(0, std::memory_order_relaxed);
    }
  });
  crew.Join();
}

TEST_P(FiberEventTest, MayBeDestroyedAsSoonAsWaitHasReturned) {
  const int rounds = Scaled(3000);
  std::atomic<FiberEvent*> offer{nullptr};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto event = std::make_unique<FiberEvent>();
      offer = event.get();
      switch (i % 3) {
        case 0:
          event->Wait();
          break;
        case 1:
          EXPECT_TRUE(event->Wait(1h));
          break;
        case 2:
          YieldUntil([&] { return event->IsSet(); });
          break;
      }
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberEvent* event = nullptr;
      YieldUntil([&] { return (event = offer.exchange(nullptr)) != nullptr; });
      event->Set();
    }
  });
  crew.Join();
}

TEST_P(FiberEventTest, TimeOutsRaceWithSet) {
  const int rounds = Scaled(2000);
  std::atomic<FiberEvent*> offer{nullptr};
  std::atomic<int> acknowledged{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberEvent event;
      offer = &event;
      if (!event.Wait(std::chrono::microseconds(i % 40))) event.Wait();
      EXPECT_TRUE(event.IsSet());
      YieldUntil([&] { return acknowledged == i + 1; });
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberEvent* event = nullptr;
      YieldUntil([&] { return (event = offer.exchange(nullptr)) != nullptr; });
      for (int spin = i % 7; spin > 0; --spin) YieldActor();
      event->Set();
      ++acknowledged;
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberEventTest);

TEST(FiberEvent, WakesPlainThreadsWithoutARuntime) {
  FiberEvent event;
  std::thread waiter([&] { event.Wait(); });
  event.Set();
  waiter.join();
  EXPECT_FALSE(FiberEvent().Wait(1ms));
}

}  // namespace
}  // namespace weft
