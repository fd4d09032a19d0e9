// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_semaphore.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class FiberSemaphoreTest : public testing::OnAnyCrew {};

TEST_P(FiberSemaphoreTest, AdmitsAsManyAsThereAreUnits) {
  const int rounds = Scaled(1000);
  FiberSemaphore semaphore(3);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  Crew crew = MakeCrew();
  crew.AddMany(8, [&](int) {
    for (int i = 0; i < rounds; ++i) {
      semaphore.Acquire();
      const int now = ++inside;
      EXPECT_LE(now, 3);
      if (now > most) most = now;
      if (i % 16 == 0) YieldActor();
      --inside;
      semaphore.Release();
    }
  });
  crew.Join();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(semaphore.TryAcquire());
  EXPECT_FALSE(semaphore.TryAcquire());
}

TEST_P(FiberSemaphoreTest, PingPong) {
  const int rounds = Scaled(5000);
  FiberSemaphore ping(0), pong(0);
  int token = 0;
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      ++token;
      pong.Release();
      ping.Acquire();
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      pong.Acquire();
      ++token;
      ping.Release();
    }
  });
  crew.Join();
  EXPECT_EQ(token, 2 * rounds);
}

TEST_P(FiberSemaphoreTest, ReleaseOfManyWakesAsManyAndKeepsTheRest) {
  FiberSemaphore semaphore(0);
  std::atomic<int> through{0};
  Crew crew = MakeCrew();
  crew.AddMany(5, [&](int) {
    semaphore.Acquire();
    ++through;
  });
  crew.Add([&] { semaphore.Release(7); });
  crew.Join();
  EXPECT_EQ(through, 5);
  EXPECT_TRUE(semaphore.TryAcquire());
  EXPECT_TRUE(semaphore.TryAcquire());
  EXPECT_FALSE(semaphore.TryAcquire());
}

TEST_P(FiberSemaphoreTest, TimedFormsTimeOutOrSucceed) {
  FiberSemaphore semaphore(0);
  std::atomic<int> timed_out{0};
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(semaphore.Acquire(2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(semaphore.Acquire(std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(semaphore.Acquire(0s));
    ++timed_out;
    EXPECT_TRUE(semaphore.Acquire(std::chrono::hours::max()));
  });
  crew.Add([&] {
    YieldUntil([&] { return timed_out == 3; });
    semaphore.Release(3);
  });
  crew.Join();
}

// Units are neither lost nor made when waiters time out while units are released.
TEST_P(FiberSemaphoreTest, TimeOutsNeitherLoseNorMakeUnits) {
  const int rounds = Scaled(2000);
  constexpr int kUnits = 2;
  FiberSemaphore semaphore(kUnits);
  std::atomic<int> inside{0};
  Crew crew = MakeCrew();
  crew.AddMany(6, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      if (me < 4) {
        if (!semaphore.Acquire(std::chrono::microseconds((i + me) % 30))) continue;
      } else {
        semaphore.Acquire();  // Hangs if a unit is lost.
      }
      EXPECT_LE(++inside, kUnits);
      if (i % 8 == 0) YieldActor();
      --inside;
      semaphore.Release();
    }
  });
  crew.Join();
  for (int i = 0; i < kUnits; ++i) EXPECT_TRUE(semaphore.TryAcquire());
  EXPECT_FALSE(semaphore.TryAcquire());
}

TEST_P(FiberSemaphoreTest, MayBeDestroyedAsSoonAsAcquireHasReturned) {
  const int rounds = Scaled(3000);
  std::atomic<FiberSemaphore*> offer{nullptr};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto semaphore = std::make_unique<FiberSemaphore>(0);
      offer = semaphore.get();
      switch (i % 3) {
        case 0:
          semaphore->Acquire();
          break;
        case 1:
          EXPECT_TRUE(semaphore->Acquire(1h));
          break;
        case 2:
          YieldUntil([&] { return semaphore->TryAcquire(); });
          break;
      }
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      FiberSemaphore* semaphore = nullptr;
      YieldUntil([&] { return (semaphore = offer.exchange(nullptr)) != nullptr; });
      semaphore->Release();
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberSemaphoreTest);

TEST(FiberSemaphore, ServesInTheOrderOfArrival) {
  testing::TimedGroup group(1);
  FiberSemaphore semaphore(0);
  std::vector<int> order;
  int arrived = 0;
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.AddMany(5, [&](int me) {
    ++arrived;
    semaphore.Acquire();
    order.push_back(me);
  });
  crew.Add([&] {
    YieldUntil([&] { return arrived == 5; });
    for (int i = 0; i < 5; ++i) {
      semaphore.Release();
      EXPECT_FALSE(semaphore.TryAcquire()) << "nobody overtakes a waiter";
    }
  });
  crew.Join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(FiberSemaphoreDeathTest, BadNumbersEndTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(FiberSemaphore(-1), "bad number of units -1");
  FiberSemaphore semaphore(0);
  EXPECT_DEATH(semaphore.Release(-2), "bad number of units -2");
}

}  // namespace
}  // namespace weft
