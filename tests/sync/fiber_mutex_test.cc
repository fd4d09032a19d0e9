// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_mutex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/sync/wait/wait_queue.h"

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

class FiberMutexTest : public testing::OnAnyCrew {};

TEST_P(FiberMutexTest, ExcludesOthers) {
  const int actors = 8;
  const int rounds = Scaled(5000);
  FiberMutex mutex;
  int counter = 0;
  std::atomic<int> inside{0};
  Crew crew = MakeCrew();
  crew.AddMany(actors, [&](int) {
    for (int i = 0; i < rounds; ++i) {
      std::scoped_lock lock(mutex);
      EXPECT_EQ(inside.fetch_add(1), 0);
      ++counter;
      inside.fetch_sub(1);
    }
  });
  crew.Join();
  EXPECT_EQ(counter, actors * rounds);
}

TEST_P(FiberMutexTest, ExcludesOthersWhileItsOwnerYields) {
  const int actors = 8;
  const int rounds = Scaled(500);
  FiberMutex mutex;
  int counter = 0;
  Crew crew = MakeCrew();
  crew.AddMany(actors, [&](int) {
    for (int i = 0; i < rounds; ++i) {
      std::scoped_lock lock(mutex);
      const int seen = counter;
      YieldActor();
      counter = seen + 1;
    }
  });
  crew.Join();
  EXPECT_EQ(counter, actors * rounds);
}

TEST_P(FiberMutexTest, ExcludesOthersWhileItsOwnerSleeps) {
  FiberMutex mutex;
  int counter = 0;
  Crew crew = MakeCrew();
  crew.AddMany(6, [&](int) {
    for (int i = 0; i < 3; ++i) {
      std::scoped_lock lock(mutex);
      const int seen = counter;
      synchronization::SleepUntil(200us, synchronization::Interruptible::kNo);
      counter = seen + 1;
    }
  });
  crew.Join();
  EXPECT_EQ(counter, 18);
}

TEST_P(FiberMutexTest, TryLockFailsWhileItIsOwnedAndOnlyThen) {
  FiberMutex mutex;
  std::atomic<int> step{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    mutex.lock();
    step = 1;
    YieldUntil([&] { return step == 2; });
    mutex.unlock();
    step = 3;
  });
  crew.Add([&] {
    YieldUntil([&] { return step == 1; });
    EXPECT_FALSE(mutex.try_lock());
    step = 2;
    YieldUntil([&] { return step == 3; });
    EXPECT_TRUE(mutex.try_lock());
    mutex.unlock();
  });
  crew.Join();
}

TEST_P(FiberMutexTest, MixesLockAndTryLock) {
  const int rounds = Scaled(2000);
  FiberMutex mutex;
  int counter = 0;
  Crew crew = MakeCrew();
  crew.AddMany(6, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      if (me % 2 == 0) {
        mutex.lock();
      } else {
        YieldUntil([&] { return mutex.try_lock(); });
      }
      ++counter;
      mutex.unlock();
    }
  });
  crew.Join();
  EXPECT_EQ(counter, 6 * rounds);
}

// std::lock takes several without deadlock.
TEST_P(FiberMutexTest, WorksWithScopedLockOverSeveral) {
  const int rounds = Scaled(1000);
  FiberMutex a, b;
  int counter = 0;
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      if (me % 2 == 0) {
        std::scoped_lock lock(a, b);
        ++counter;
      } else {
        std::scoped_lock lock(b, a);
        ++counter;
      }
    }
  });
  crew.Join();
  EXPECT_EQ(counter, 4 * rounds);
}

// One actor locks in a loop, and gives others a chance to run only while it owns the mutex: without a hand-off the
// others would lose for ever.
TEST_P(FiberMutexTest, AWaiterIsNotStarvedByOneWhoLocksAgainAtOnce) {
  FiberMutex mutex;
  std::atomic<bool> got_it{false};
  std::atomic<bool> hogging{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    while (!got_it) {
      mutex.lock();
      hogging = true;
      YieldActor();
      mutex.unlock();
    }
  });
  crew.Add([&] {
    YieldUntil([&] { return hogging.load(); });
    mutex.lock();
    got_it = true;
    mutex.unlock();
  });
  crew.Join();
}

TEST_P(FiberMutexTest, ManyWaitersAllGetThroughDespiteHogs) {
  FiberMutex mutex;
  std::atomic<int> waiting{10};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    while (waiting != 0) {
      std::scoped_lock lock(mutex);
      YieldActor();
    }
  });
  crew.AddMany(10, [&](int) {
    mutex.lock();
    --waiting;
    mutex.unlock();
  });
  crew.Join();
}

// The last user destroys the object that holds the mutex, right after its unlock: an earlier owner may still be inside
// unlock(). For ASan and TSan.
TEST_P(FiberMutexTest, MayBeDestroyedByItsLastOwner) {
  struct Counted {
    FiberMutex mutex;
    int references = 2;
  };
  const int rounds = Scaled(3000);
  std::atomic<Counted*> offer{nullptr};
  auto release = [](Counted* object) {
    object->mutex.lock();
    const bool last = --object->references == 0;
    object->mutex.unlock();
    if (last) delete object;
  };
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto* object = new Counted;
      offer = object;
      YieldUntil([&] { return offer == nullptr; });
      release(object);
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      Counted* object = nullptr;
      YieldUntil([&] { return (object = offer.exchange(nullptr)) != nullptr; });
      release(object);
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberMutexTest);

// On one worker, in the order in which fibers run, nothing races: what happens is the rule.
TEST(FiberMutex, WakesWaitersInTheOrderInWhichTheyCame) {
  testing::TimedGroup group(1);
  FiberMutex mutex;
  std::vector<int> order;
  Crew crew(&group, testing::ActorKind::kFibers);
  int arrived = 0;
  crew.Add([&] {
    mutex.lock();
    YieldUntil([&] { return arrived == 5; });  // All others are in the queue now.
    mutex.unlock();
  });
  crew.AddMany(5, [&](int me) {
    ++arrived;
    mutex.lock();
    order.push_back(me);
    mutex.unlock();
  });
  crew.Join();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
}

TEST(FiberMutex, IsNotHandedOffWithoutNeed) {
  testing::TimedGroup group(1);
  FiberMutex mutex;
  std::vector<int> order;
  Crew crew(&group, testing::ActorKind::kFibers);
  bool arrived = false;
  crew.Add([&] {
    mutex.lock();
    YieldUntil([&] { return arrived; });  // The other one is in the queue now.
    mutex.unlock();                       // Wakes it. But who runs, goes on running:
    mutex.lock();
    order.push_back(0);
    mutex.unlock();
  });
  crew.Add([&] {
    arrived = true;
    mutex.lock();
    order.push_back(1);
    mutex.unlock();
  });
  crew.Join();
  EXPECT_EQ(order, (std::vector<int>{0, 1}));
}

// MX6. The waiter loses each time, and not beside its waker: its worker is kept busy from each wake-up until the mutex
// is locked again.
TEST(FiberMutex, IsHandedOffToAWaiterThatHasLostForLong) {
  testing::TimedGroup group(1);
  FiberMutex mutex;
  std::atomic<int> occupants = 0;
  std::atomic<int> let_go = 0;
  std::atomic<bool> got_it = false;
  // Once it runs, whatever was ready before it has run: the waiter is asleep again.
  const auto occupy = [&] {
    const int me = occupants + 1;
    group.Start([&, me] {
      occupants = me;
      while (let_go < me) {
      }
    });
    let_go = me - 1;  // The former one.
    while (occupants != me) std::this_thread::yield();
  };
  mutex.lock();
  group.Start([&] {
    mutex.lock();
    mutex.unlock();
    got_it = true;
  });
  occupy();
  bool handed_over = false;
  for (int round = 0; round < 200 && !handed_over; ++round) {
    mutex.unlock();
    handed_over = !mutex.try_lock();
    if (handed_over) break;
    occupy();
    std::this_thread::sleep_for(100us);  // It is asked for after a millisecond.
  }
  EXPECT_TRUE(handed_over);
  let_go = occupants.load();
  if (!handed_over) mutex.unlock();
  testing::YieldUntil([&] { return got_it.load(); });
}

// MX7. Owners that yield in their sections hand off in rows; a row that went on would make each lock a switch, also
// when they yield no more.
TEST(FiberMutex, ARowOfHandOffsEnds) {
  constexpr int kFibers = 4;
  constexpr int kRow = 16;
  constexpr int kLocksAfterIt = 1000;
  constexpr int kLocksAtMost = 10'000'000;
  testing::TimedGroup group(1);
  FiberMutex mutex;
  int in_a_row = 0;  // unlocks after which the mutex had another owner
  int longest_row = 0;
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.AddMany(kFibers, [&](int) {
    // The first row comes when a waiter has lost for a millisecond. How many locks that takes depends on the machine.
    int after = 0;
    for (int i = 0; after < kLocksAfterIt && i < kLocksAtMost; ++i, after += longest_row >= kRow ? 1 : 0) {
      mutex.lock();
      testing::YieldActor();
      mutex.unlock();
      // On one worker nobody else has run meanwhile.
      if (mutex.try_lock()) {
        in_a_row = 0;
        mutex.unlock();
      } else {
        longest_row = std::max(longest_row, ++in_a_row);
      }
    }
  });
  crew.Join();
  EXPECT_GE(longest_row, kRow) << "there was no row";
  EXPECT_LE(longest_row, 4 * kRow);
}

// FiberMutex needs no runtime.
TEST(FiberMutex, WorksBetweenThreadsWithoutARuntime) {
  FiberMutex mutex;
  int counter = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < Scaled(20'000); ++i) {
        std::scoped_lock lock(mutex);
        ++counter;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, 4 * Scaled(20'000));
}

using FiberMutexDeathTest = ::testing::Test;

TEST(FiberMutexDeathTest, UnlockOfAFreeMutexEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberMutex mutex;
  EXPECT_DEATH(mutex.unlock(), "FiberMutex::unlock: not locked");
}

#ifndef NDEBUG
TEST(FiberMutexDeathTest, UnlockByAnotherThreadEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberMutex mutex;
  mutex.lock();
  EXPECT_DEATH(std::thread([&] { mutex.unlock(); }).join(), "FiberMutex::unlock: the caller is not the owner");
  mutex.unlock();
}

TEST(FiberMutexDeathTest, UnlockByAnotherFiberEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto misuse = [] {
    testing::TimedGroup group(1);
    FiberMutex mutex;
    group.Run([&] { mutex.lock(); });
    group.Run([&] { mutex.unlock(); });
  };
  EXPECT_DEATH(misuse(), "FiberMutex::unlock: the caller is not the owner");
}

TEST(FiberMutexDeathTest, ASecondLockByItsOwnerEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberMutex mutex;
  mutex.lock();
  EXPECT_DEATH(mutex.lock(), "FiberMutex::lock: the caller owns it already");
  mutex.unlock();
}

TEST(FiberMutexDeathTest, DestructionWhileLockedEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto misuse = [] {
    FiberMutex mutex;
    mutex.lock();
  };
  EXPECT_DEATH(misuse(), "FiberMutex::~FiberMutex: it is locked");
}
#endif

}  // namespace
}  // namespace weft
