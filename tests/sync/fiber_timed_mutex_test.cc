// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_timed_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>

#include "testing/group_fixture.h"

// These tests lock in ways that the analysis cannot follow.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class FiberTimedMutexTest : public testing::OnAnyCrew {
 protected:
  // Calls `attempt` in another actor while the mutex is owned.
  template <class F>
  void WhileLocked(F attempt) {
    std::atomic<int> step{0};
    Crew crew = MakeCrew();
    crew.Add([&] {
      mutex.lock();
      step = 1;
      YieldUntil([&] { return step == 2; });
      mutex.unlock();
    });
    crew.Add([&] {
      YieldUntil([&] { return step == 1; });
      attempt();
      step = 2;
    });
    crew.Join();
  }

  FiberTimedMutex mutex;
};

TEST_P(FiberTimedMutexTest, TryLockForSucceedsWhileUnlocked) {
  Crew crew = MakeCrew();
  crew.Add([&] {
    EXPECT_TRUE(mutex.try_lock_for(1ms));
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock_for(-1s)) << "one attempt is always made";
    mutex.unlock();
    EXPECT_TRUE(mutex.try_lock_until(std::chrono::system_clock::now()));
    mutex.unlock();
  });
  crew.Join();
}

TEST_P(FiberTimedMutexTest, TryLockForFailsAfterTheTimeWhileLocked) {
  WhileLocked([&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(mutex.try_lock_for(5ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 5ms);
  });
}

TEST_P(FiberTimedMutexTest, TryLockUntilTakesAnyClock) {
  WhileLocked([&] {
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() + 2ms));
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::system_clock::now() + 2ms));
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() - 2ms));
    EXPECT_FALSE(mutex.try_lock_for(std::chrono::duration<double, std::micro>(0.5)));
    EXPECT_FALSE(mutex.try_lock());
  });
}

TEST_P(FiberTimedMutexTest, TryLockForSucceedsWhenItIsUnlockedInTime) {
  std::atomic<int> step{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    mutex.lock();
    step = 1;
    for (int i = 0; i < 100; ++i) YieldActor();
    mutex.unlock();
  });
  crew.Add([&] {
    YieldUntil([&] { return step == 1; });
    EXPECT_TRUE(mutex.try_lock_for(std::chrono::hours::max()));
    mutex.unlock();
  });
  crew.Join();
}

// Short time-outs race with wake-ups: a waiter that gives up while it is being woken must pass the wake-up on.
TEST_P(FiberTimedMutexTest, AWakeUpIsNotLostByAWaiterThatTimesOut) {
  const int rounds = Scaled(1500);
  int counter = 0;
  std::atomic<int> successes{0};
  Crew crew = MakeCrew();
  crew.AddMany(6, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      if (me < 4) {
        if (!mutex.try_lock_for(std::chrono::microseconds(i % 50))) continue;
      } else {
        mutex.lock();  // Never returns if a wake-up is lost.
      }
      ++counter;
      ++successes;
      if (i % 8 == 0) YieldActor();
      mutex.unlock();
    }
  });
  crew.Join();
  EXPECT_EQ(counter, successes);
}

TEST_P(FiberTimedMutexTest, WorksWithUniqueLock) {
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::unique_lock lock(mutex, 1s);
    EXPECT_TRUE(lock.owns_lock());
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberTimedMutexTest);

}  // namespace
}  // namespace weft
