// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_condition_variable.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class FiberConditionVariableTest : public testing::OnAnyCrew {
 protected:
  FiberMutex mutex;
  FiberConditionVariable changed;
};

TEST_P(FiberConditionVariableTest, NotifyOneWakesAWaiter) {
  bool ready = false;
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::unique_lock lock(mutex);
    while (!ready) changed.wait(lock);
    EXPECT_TRUE(lock.owns_lock());
  });
  crew.Add([&] {
    {
      std::scoped_lock lock(mutex);
      ready = true;
    }
    changed.notify_one();
  });
  crew.Join();
}

TEST_P(FiberConditionVariableTest, NotifyAllWakesAllWithTheMutexHeldOrNot) {
  for (const bool held : {true, false}) {
    bool ready = false;
    std::atomic<int> through{0};
    Crew crew = MakeCrew();
    crew.AddMany(20, [&](int) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return ready; });
      ++through;
    });
    crew.Add([&] {
      std::unique_lock lock(mutex);
      ready = true;
      if (!held) lock.unlock();
      changed.notify_all();
    });
    crew.Join();
    EXPECT_EQ(through, 20);
  }
}

TEST_P(FiberConditionVariableTest, NotifyWithoutWaitersIsForgotten) {
  Crew crew = MakeCrew();
  crew.Add([&] {
    changed.notify_one();
    changed.notify_all();
    std::unique_lock lock(mutex);
    EXPECT_EQ(changed.wait_for(lock, 1ms), std::cv_status::timeout);
  });
  crew.Join();
}

TEST_P(FiberConditionVariableTest, TimedWaitsTimeOutInAllForms) {
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    std::unique_lock lock(mutex);
    auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(changed.wait_for(lock, 2ms), std::cv_status::timeout);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_EQ(changed.wait_until(lock, std::chrono::steady_clock::now() + 1ms), std::cv_status::timeout);
    EXPECT_EQ(changed.wait_until(lock, std::chrono::system_clock::now() + 1ms), std::cv_status::timeout);
    EXPECT_FALSE(changed.wait_for(lock, 1ms, [] { return false; }));
    EXPECT_FALSE(changed.wait_until(lock, std::chrono::system_clock::now() + 1ms, [] { return false; }));
    EXPECT_TRUE(changed.wait_for(lock, -1ms, [] { return true; }));
    EXPECT_EQ(changed.wait_for(lock, 0ms), std::cv_status::timeout);
    EXPECT_TRUE(lock.owns_lock());
  });
  crew.Join();
}

TEST_P(FiberConditionVariableTest, ATimedWaitEndsWithTheNotification) {
  bool ready = false;
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, std::chrono::hours::max(), [&] { return ready; }));
    EXPECT_TRUE(changed.wait_until(lock, std::chrono::steady_clock::time_point::max(), [&] { return ready; }));
  });
  crew.Add([&] {
    std::scoped_lock lock(mutex);
    ready = true;
    changed.notify_one();
  });
  crew.Join();
}

// A loop that polls with a deadline in the past must let others change the condition.
TEST_P(FiberConditionVariableTest, PollingLetsOthersHaveTheMutex) {
  bool ready = false;
  std::atomic<bool> polling{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::unique_lock lock(mutex);
    polling = true;
    while (!ready) changed.wait_for(lock, 0s);
  });
  crew.Add([&] {
    YieldUntil([&] { return polling.load(); });
    std::scoped_lock lock(mutex);
    ready = true;
  });
  crew.Join();
}

// The waiter is a thread, the notifier does not hold the mutex when it notifies: tRPC-Cpp's waiter looks at its futex
// after it is queued.
TEST_P(FiberConditionVariableTest, CondvarNotifyWithoutMutexIsNotLostByAThread) {
  const int rounds = Scaled(3000);
  int turn = 0;
  auto play = [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return turn % 2 == me; });  // Hangs if a notification is lost.
        ++turn;
      }
      changed.notify_one();
    }
  };
  Crew crew = MakeCrew();
  crew.AddThread([&] { play(0); });
  crew.Add([&] { play(1); });
  crew.Join();
  EXPECT_EQ(turn, 2 * rounds);
}

// Waits that time out while they are being notified: the notifier may not use a waiter whose stack frame is gone. For
// ASan and TSan.
TEST_P(FiberConditionVariableTest, CondvarTimeoutDoesNotUseWaiterAfterFree) {
  const int rounds = Scaled(1000);
  std::atomic<int> waiting{4};
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      std::unique_lock lock(mutex);
      static_cast<void>(changed.wait_for(lock, std::chrono::microseconds((i * 7 + me * 13) % 100)));
    }
    --waiting;
  });
  crew.Add([&] {
    for (int i = 0; waiting != 0; ++i) {
      if (i % 3 == 0) {
        changed.notify_all();
      } else if (i % 3 == 1) {
        changed.notify_one();
      } else {
        std::scoped_lock lock(mutex);
        changed.notify_all();
      }
      YieldActor();
    }
  });
  crew.Join();
}

// Every notify_one() with a waiter in the queue lets one wait return: counted by tokens that are given and taken under
// the mutex.
TEST_P(FiberConditionVariableTest, NotifyOneIsNotSwallowedByAWaiterThatTimesOut) {
  const int tokens = Scaled(3000);
  int available = 0;
  int taken = 0;
  bool stop = false;
  Crew crew = MakeCrew();
  // Two wait for ever, others with short time-outs. If a notification goes to one who times out, and is lost, the
  // patient ones hang.
  crew.AddMany(2, [&](int) {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [&] { return available > 0 || stop; });
      if (available == 0) return;
      --available;
      ++taken;
    }
  });
  crew.AddMany(4, [&](int me) {
    std::unique_lock lock(mutex);
    int i = 0;
    while (!stop) {
      if (changed.wait_for(lock, std::chrono::microseconds(i % 40 + me), [&] { return available > 0; })) {
        --available;
        ++taken;
      }
      ++i;
    }
  });
  crew.Add([&] {
    for (int i = 0; i < tokens; ++i) {
      {
        std::scoped_lock lock(mutex);
        ++available;
      }
      changed.notify_one();
      if (i % 8 == 0) {
        YieldUntil([&] {
          std::scoped_lock lock(mutex);
          return available == 0;
        });
      }
    }
    YieldUntil([&] {
      std::scoped_lock lock(mutex);
      return available == 0;
    });
    std::scoped_lock lock(mutex);
    stop = true;
    changed.notify_all();
  });
  crew.Join();
  EXPECT_EQ(taken, tokens);
}

TEST_P(FiberConditionVariableTest, ProducersAndConsumersPassEverything) {
  const int producers = 3, consumers = 3;
  const int each = Scaled(3000);
  std::deque<int> items;
  FiberConditionVariable not_full;
  std::int64_t sum = 0;
  Crew crew = MakeCrew();
  crew.AddMany(producers, [&](int) {
    for (int i = 1; i <= each; ++i) {
      std::unique_lock lock(mutex);
      not_full.wait(lock, [&] { return items.size() < 8; });
      items.push_back(i);
      if (i % 2 == 0) lock.unlock();  // With and without the mutex.
      changed.notify_one();
    }
  });
  crew.AddMany(consumers, [&](int) {
    for (int i = 0; i < each; ++i) {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return !items.empty(); });
      sum += items.front();
      items.pop_front();
      if (i % 2 == 0) lock.unlock();
      not_full.notify_one();
    }
  });
  crew.Join();
  EXPECT_EQ(sum, std::int64_t{producers} * each * (each + 1) / 2);
}

// As std::condition_variable: it may be destroyed when all have been notified; they need not have returned. The mutex
// lives on.
TEST_P(FiberConditionVariableTest, MayBeDestroyedOnceAllWaitersWereNotified) {
  const int rounds = Scaled(500);
  struct Round {
    FiberConditionVariable event;
    int waiting = 0;
  };
  constexpr int kWaiters = 3;
  std::array<std::atomic<Round*>, kWaiters> offers{};
  Crew crew = MakeCrew();
  crew.AddMany(kWaiters, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      Round* round = nullptr;
      YieldUntil([&] { return (round = offers[me].exchange(nullptr)) != nullptr; });
      std::unique_lock lock(mutex);
      ++round->waiting;
      if (me == 0) {
        static_cast<void>(round->event.wait_for(lock, std::chrono::microseconds(i % 60)));
      } else {
        round->event.wait(lock);
      }
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      auto round = std::make_unique<Round>();
      for (auto& offer : offers) offer = round.get();
      YieldUntil([&] {
        std::scoped_lock lock(mutex);
        return round->waiting == kWaiters;
      });
      if (i % 2 == 0) {
        round->event.notify_all();
      } else {
        std::scoped_lock lock(mutex);
        round->event.notify_all();
      }
    }
  });
  crew.Join();
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberConditionVariableTest);

// With the mutex held by the notifier nobody is woken in vain: on one worker, a waiter that is notified does not run
// before the unlock.
TEST(FiberConditionVariable, NotifiedWaitersWaitForTheMutexWithoutBeingWoken) {
  testing::TimedGroup group(1);
  FiberMutex mutex;
  FiberConditionVariable changed;
  int waiting = 0;
  int returned = 0;
  std::uint64_t switches = 0;
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.AddMany(50, [&](int) {
    std::unique_lock lock(mutex);
    ++waiting;
    changed.wait(lock);
    ++returned;
  });
  crew.Add([&] {
    YieldUntil([&] { return waiting == 50; });
    std::unique_lock lock(mutex);
    changed.notify_all();
    const std::uint64_t before = group.group().counters(0).switches.load();
    for (int i = 0; i < 10; ++i) YieldActor();
    switches = group.group().counters(0).switches.load() - before;
    EXPECT_EQ(returned, 0);
  });
  crew.Join();
  EXPECT_EQ(returned, 50);
  EXPECT_LT(switches, 10u) << "waiters were woken while the mutex was held";
}

TEST(FiberConditionVariableDeathTest, WaitWithoutTheLockEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberMutex mutex;
  FiberConditionVariable changed;
  std::unique_lock lock(mutex, std::defer_lock);
  EXPECT_DEATH(changed.wait(lock), "the caller does not hold the lock");
}

}  // namespace
}  // namespace weft
