// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait_group.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>

#include "weft/sync/cancel_scope.h"

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class WaitGroupTest : public testing::OnAnyCrew {};

TEST_P(WaitGroupTest, AllWaitersPassWhenTheLastIsDone) {
  constexpr int kWorkers = 6;
  WaitGroup group;
  std::atomic<int> done{0};
  int written[kWorkers] = {};
  group.Add(kWorkers);
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    group.Wait();
    EXPECT_EQ(done, kWorkers);
    for (int i = 0; i < kWorkers; ++i) EXPECT_EQ(written[i], i + 1);
  });
  crew.AddMany(kWorkers, [&](int me) {
    written[me] = me + 1;
    ++done;
    group.Done();
  });
  crew.Join();
  EXPECT_EQ(group.Count(), 0);
}

// The next round may begin before the waiters of this one have run: they must not wait for it.
TEST_P(WaitGroupTest, AWaiterPassesThoughTheNextRoundHasBegun) {
  WaitGroup group;
  group.Add();
  std::atomic<bool> waits{false};
  std::atomic<bool> through{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    waits = true;
    group.Wait();
    through = true;
  });
  crew.Add([&] {
    YieldUntil([&] { return waits.load(); });
    // It may not be in the queue yet; then it is let through by a later round.
    while (!through) {
      group.Done();
      group.Add();
      YieldActor();
    }
    EXPECT_EQ(group.Count(), 1);
    group.Done();
  });
  crew.Join();
}

TEST_P(WaitGroupTest, CanBeUsedAgain) {
  const int rounds = Scaled(100);
  constexpr int kWorkers = 3;
  WaitGroup group;
  std::atomic<int> round{0};
  std::atomic<int> done{0};
  Crew crew = MakeCrew();
  crew.AddMany(kWorkers, [&](int) {
    for (int i = 1; i <= rounds; ++i) {
      YieldUntil([&] { return round >= i; });
      ++done;
      group.Done();
    }
  });
  crew.Add([&] {
    for (int i = 1; i <= rounds; ++i) {
      group.Add(kWorkers);
      ++round;
      if (i % 2 == 0) {
        group.Wait();
      } else {
        EXPECT_TRUE(group.Wait(testing::kSoon));
      }
      EXPECT_EQ(done, i * kWorkers);
    }
  });
  crew.Join();
}

TEST_P(WaitGroupTest, TimedWaitsTimeOutOrSucceed) {
  WaitGroup group;
  group.Add();
  std::atomic<int> timed_out{0};
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(group.Wait(2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(group.Wait(0ms));
    ++timed_out;
    EXPECT_TRUE(group.Wait(std::chrono::hours::max()));
    EXPECT_TRUE(group.Wait(0ms));
  });
  crew.Add([&] {
    YieldUntil([&] { return timed_out == 3; });
    group.Done();
  });
  crew.Join();
}

// The waiter destroys the group as soon as it may, while the last Done() is still on its way out. For ASan and TSan.
TEST_P(WaitGroupTest, MayBeDestroyedWhileTheLastDoneReturns) {
  const int rounds = Scaled(600);
  std::atomic<WaitGroup*> offer{nullptr};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto group = std::make_unique<WaitGroup>();
      group->Add(2);
      offer = group.get();
      group->Done();
      switch (i % 3) {
        case 0:
          group->Wait();
          break;
        case 1:
          EXPECT_TRUE(group->Wait(1h));
          break;
        case 2:
          if (!group->Wait(std::chrono::microseconds(i % 40))) group->Wait();
          break;
      }
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      WaitGroup* group = nullptr;
      YieldUntil([&] { return (group = offer.exchange(nullptr)) != nullptr; });
      for (int spin = i % 7; spin > 0; --spin) YieldActor();
      group->Done();
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(WaitGroupTest);

TEST(WaitGroup, OfNothingDoesNotWait) {
  WaitGroup group;
  group.Wait();
  EXPECT_TRUE(group.Wait(0s));
  group.Add(0);
  group.Wait();
}

TEST(WaitGroup, WorksBetweenThreadsWithoutARuntime) {
  WaitGroup group;
  group.Add();
  std::thread waiter([&] { group.Wait(); });
  group.Done();
  waiter.join();
}

TEST(WaitGroup, ACancelledWaitLeavesTheCountAndTheOtherWaiters) {
  testing::TimedGroup workers(2);
  WaitGroup group;
  group.Add();
  CancelScope scope;
  std::atomic<int> ended{0};
  Crew crew(&workers, testing::ActorKind::kFibers);
  crew.Add([&] {
    EXPECT_FALSE(scope.Run([&] { group.Wait(); }));
    ++ended;
  });
  crew.Add([&] {
    EXPECT_TRUE(group.Wait(testing::kSoon));
    EXPECT_EQ(ended, 1);
  });
  crew.Add([&] {
    scope.Cancel();
    YieldUntil([&] { return ended == 1; });
    EXPECT_EQ(group.Count(), 1);
    group.Done();
  });
  crew.Join();
}

TEST(WaitGroupDeathTest, MoreDoneThanAddEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  WaitGroup group;
  EXPECT_DEATH(group.Done(), "WaitGroup::Done: called more often than Add\\(\\)");
  EXPECT_DEATH(group.Add(-1), "WaitGroup::Add: -1 to 0");
  EXPECT_DEATH(
      {
        WaitGroup full;
        full.Add(PTRDIFF_MAX);
        full.Add();
      },
      "WaitGroup::Add: 1 to 9223372036854775807");
}

// What still calls Done() would use a group that has gone: a cancelled wait is such an end.
TEST(WaitGroupDeathTest, OneThatIsDestroyedBeforeItIsDoneEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        WaitGroup group;
        group.Add(3);
        group.Done();
        EXPECT_FALSE(group.Wait(1ns));
      },
      "WaitGroup::~WaitGroup: 2 Done\\(\\) are still to come");
}

}  // namespace
}  // namespace weft
