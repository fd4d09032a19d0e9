// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What would hang, or touch memory that is no more, ends the process with a message, in release builds too. Each case
// dies in a process of its own.

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <utility>

#include "weft/base/thread/exit.h"
#include "weft/base/thread/parker.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/select.h"
#include "weft/sync/wait_group.h"

#include "testing/worker_group.h"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wthread-safety"  // It sees the misuse, which is what is tested here.
#endif

namespace weft {
namespace {

using namespace std::chrono_literals;

class SyncMisuseDeathTest : public ::testing::Test {
 protected:
  SyncMisuseDeathTest() {
    // The workers are started in the process that dies: a forked one would have none.
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }

  template <class F>
  static void InFiber(F&& f) {
    testing::WorkerGroup workers(2);
    ASSERT_TRUE(workers.Start(std::forward<F>(f), {.name = "culprit"}));
    workers.Drain();
  }

  // Starts a fiber that waits for `object` as `wait` does, and destroys the object when it is parked.
  template <class T, class Wait>
  static void DestroyWaitedFor(T* object, Wait wait) {
    testing::WorkerGroup workers(1);
    ASSERT_TRUE(workers.Start([&] { wait(*object); }, {.name = "victim"}));
    // One worker, first in, first out: when this one runs the other is parked.
    testing::Countdown parked(1);
    ASSERT_TRUE(workers.Start([&] { parked.Done(); }));
    ASSERT_TRUE(parked.Wait());
    object->~T();
    std::_Exit(0);
  }
};

// --- Waiting for oneself ---

TEST_F(SyncMisuseDeathTest, AFiberThatLocksItsMutexAgain) {
  EXPECT_DEATH(InFiber([] {
                 FiberMutex mutex;
                 mutex.lock();
                 mutex.lock();
               }),
               "FiberMutex::lock: the caller owns it already");
}

TEST_F(SyncMisuseDeathTest, AThreadThatLocksItsMutexAgain) {
  EXPECT_DEATH(
      {
        FiberMutex mutex;
        mutex.lock();
        mutex.lock();
      },
      "FiberMutex::lock: the caller owns it already");
  EXPECT_DEATH(std::thread([] {
                 FiberMutex mutex;
                 ASSERT_TRUE(mutex.try_lock());
                 mutex.lock();
               }).join(),
               "FiberMutex::lock: the caller owns it already");
}

TEST_F(SyncMisuseDeathTest, AFiberThatLocksAgainWhatAConditionVariableGaveBack) {
  EXPECT_DEATH(InFiber([] {
                 FiberMutex mutex;
                 FiberConditionVariable condition;
                 std::unique_lock lock(mutex);
                 static_cast<void>(condition.wait_for(lock, -1ns));
                 mutex.lock();
               }),
               "FiberMutex::lock: the caller owns it already");
}

TEST_F(SyncMisuseDeathTest, ASharedMutexLockedTwiceByItsWriter) {
  EXPECT_DEATH(InFiber([] {
                 FiberSharedMutex mutex;
                 mutex.lock();
                 mutex.lock();
               }),
               "FiberSharedMutex::lock: the caller owns it already, as the writer");
  EXPECT_DEATH(
      {
        FiberSharedMutex mutex;
        mutex.lock();
        mutex.lock_shared();
      },
      "FiberSharedMutex::lock_shared: the caller owns it already, as the writer");
}

TEST_F(SyncMisuseDeathTest, AReaderThatWantsToWrite) {
  EXPECT_DEATH(InFiber([] {
                 FiberSharedMutex mutex;
                 mutex.lock_shared();
                 mutex.lock();
               }),
               "FiberSharedMutex::lock: the caller owns it already, as a reader");
}

TEST_F(SyncMisuseDeathTest, AReaderThatReadsAgainBehindAWriterThatWaitsForIt) {
  EXPECT_DEATH(
      {
        FiberSharedMutex mutex;
        testing::WorkerGroup workers(1);
        ASSERT_TRUE(workers.Start([&] {
          mutex.lock_shared();
          ASSERT_TRUE(workers.Start([&] { mutex.lock(); }));
          scheduling_group::YieldCurrentFiber();
          mutex.lock_shared();
        }));
        workers.Drain();
      },
      "FiberSharedMutex::lock_shared: the caller owns it already, as a reader");
}

// None of these waits for ever: they are not refused.
TEST(SyncMisuse, AnOwnerMayTryAgainAndWaitForATime) {
  const auto try_all = [] {
    FiberTimedMutex mutex;
    mutex.lock();
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::steady_clock::now() + 1ns));
    mutex.unlock();
    FiberSharedMutex shared;
    shared.lock_shared();
    EXPECT_FALSE(shared.try_lock());
    EXPECT_FALSE(shared.try_lock_until(std::chrono::steady_clock::now() + 1ns));
    EXPECT_TRUE(shared.try_lock_shared());
    shared.unlock_shared();
    shared.unlock_shared();
  };
  try_all();
}

// The owner before is not taken for the one that waits: neither by a fiber on the same stack, nor after its unlock.
TEST(SyncMisuse, WhoHasUnlockedMayWaitForTheNextOwner) {
  FiberMutex mutex;
  FiberSharedMutex shared;
  testing::WorkerGroup workers(2);
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(workers.Start([&] {
      for (int n = 0; n < 2000; ++n) {
        const std::scoped_lock lock(mutex);
        if (n % 16 == 0) scheduling_group::YieldCurrentFiber();  // The others queue up.
      }
      for (int n = 0; n < 2000; ++n) {
        if (n % 4 == 0) {
          const std::scoped_lock lock(shared);
          if (n % 16 == 0) scheduling_group::YieldCurrentFiber();
        } else {
          const std::shared_lock lock(shared);
          if (n % 16 == 1) scheduling_group::YieldCurrentFiber();
        }
      }
    }));
  }
}

// --- Destroying what somebody waits for ---

constexpr const char* kVictim = "it is destroyed while fiber 'victim' \\(id [0-9]+\\) waits for it";

TEST_F(SyncMisuseDeathTest, AConditionVariableWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberMutex mutex;
        std::optional<FiberConditionVariable> condition(std::in_place);
        DestroyWaitedFor(&*condition, [&](FiberConditionVariable& waited_for) {
          std::unique_lock lock(mutex);
          waited_for.wait(lock);
        });
      },
      std::string("FiberConditionVariable::~FiberConditionVariable: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, AMutexWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberMutex mutex;
        mutex.lock();
        DestroyWaitedFor(&mutex, [](FiberMutex& waited_for) { waited_for.lock(); });
      },
      std::string("FiberMutex::~FiberMutex: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, ASharedMutexWithAReaderThatWaits) {
  EXPECT_DEATH(
      {
        FiberSharedMutex mutex;
        mutex.lock();
        DestroyWaitedFor(&mutex, [](FiberSharedMutex& waited_for) { waited_for.lock_shared(); });
      },
      std::string("FiberSharedMutex::~FiberSharedMutex: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, ASharedMutexWithAWriterThatWaits) {
  EXPECT_DEATH(
      {
        FiberSharedMutex mutex;
        mutex.lock_shared();
        DestroyWaitedFor(&mutex, [](FiberSharedMutex& waited_for) { waited_for.lock(); });
      },
      std::string("FiberSharedMutex::~FiberSharedMutex: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, AnEventWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberEvent event;
        DestroyWaitedFor(&event, [](FiberEvent& waited_for) { waited_for.Wait(); });
      },
      std::string("FiberEvent::~FiberEvent: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, ASemaphoreWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberSemaphore semaphore(0);
        DestroyWaitedFor(&semaphore, [](FiberSemaphore& waited_for) { waited_for.Acquire(); });
      },
      std::string("FiberSemaphore::~FiberSemaphore: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, ASemaphoreWithAWaiterInItsQueue) {
  EXPECT_DEATH(
      {
        FiberSemaphore semaphore(0);
        DestroyWaitedFor(&semaphore, [](FiberSemaphore& waited_for) { Select(OnAcquire(waited_for)); });
      },
      "FiberSemaphore::~FiberSemaphore: it is destroyed while ");
}

TEST_F(SyncMisuseDeathTest, ALatchWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberLatch latch(1);
        DestroyWaitedFor(&latch, [](FiberLatch& waited_for) { waited_for.Wait(); });
      },
      std::string("FiberLatch::~FiberLatch: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, ABarrierWithAWaiter) {
  EXPECT_DEATH(
      {
        FiberBarrier barrier(2);
        DestroyWaitedFor(&barrier, [](FiberBarrier& waited_for) { waited_for.ArriveAndWait(); });
      },
      std::string("FiberBarrier::~FiberBarrier: ") + kVictim);
}

TEST_F(SyncMisuseDeathTest, AWaitGroupWithAWaiter) {
  EXPECT_DEATH(
      {
        WaitGroup group;
        group.Add();
        DestroyWaitedFor(&group, [](WaitGroup& waited_for) { waited_for.Wait(); });
      },
      std::string("WaitGroup::~WaitGroup: ") + kVictim);
}

// exit() destroys what is static under whoever waits for it: nobody can be blamed.
TEST_F(SyncMisuseDeathTest, ExitWithFibersThatWaitForStaticObjectsIsNoMisuse) {
  EXPECT_EXIT(
      {
        static FiberMutex mutex;
        static FiberConditionVariable condition;
        static FiberEvent event;
        static FiberLatch latch(1);
        static WaitGroup group;
        group.Add();
        auto* const workers = new testing::WorkerGroup(1);
        static_cast<void>(workers->Start([] { event.Wait(); }));
        static_cast<void>(workers->Start([] { latch.Wait(); }));
        static_cast<void>(workers->Start([] { group.Wait(); }));
        static_cast<void>(workers->Start([] {
          std::unique_lock lock(mutex);
          condition.wait(lock);
        }));
        testing::Countdown parked(1);
        static_cast<void>(workers->Start([&] { parked.Done(); }));
        static_cast<void>(parked.Wait());
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft
