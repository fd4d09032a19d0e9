// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_shared_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <string>
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

class FiberSharedMutexTest : public testing::OnAnyCrew {
 protected:
  FiberSharedMutex mutex;
};

TEST_P(FiberSharedMutexTest, WritersExcludeAllReadersExcludeWriters) {
  const int rounds = Scaled(1500);
  std::atomic<int> readers{0}, writers{0};
  int data = 0;
  Crew crew = MakeCrew();
  crew.AddMany(8, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      if ((i + me) % 4 == 0) {
        std::unique_lock lock(mutex);
        EXPECT_EQ(writers.fetch_add(1), 0);
        EXPECT_EQ(readers, 0);
        ++data;
        if (i % 32 == 0) YieldActor();
        writers.fetch_sub(1);
      } else {
        std::shared_lock lock(mutex);
        readers.fetch_add(1);
        EXPECT_EQ(writers, 0);
        const int seen = data;
        if (i % 32 == 0) YieldActor();
        EXPECT_EQ(data, seen);
        readers.fetch_sub(1);
      }
    }
  });
  crew.Join();
  EXPECT_EQ(data, 8 * rounds / 4);
}

TEST_P(FiberSharedMutexTest, ReadersOwnItTogether) {
  std::atomic<int> inside{0};
  Crew crew = MakeCrew();
  crew.AddMany(5, [&](int) {
    std::shared_lock lock(mutex);
    ++inside;
    YieldUntil([&] { return inside == 5; });  // Hangs if they exclude each other.
  });
  crew.Join();
}

TEST_P(FiberSharedMutexTest, TryFormsFailOnlyWhereTheyMust) {
  std::atomic<int> step{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    mutex.lock();
    step = 1;
    YieldUntil([&] { return step == 2; });
    mutex.unlock();
    mutex.lock_shared();
    step = 3;
    YieldUntil([&] { return step == 4; });
    mutex.unlock_shared();
  });
  crew.Add([&] {
    YieldUntil([&] { return step == 1; });
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_shared());
    EXPECT_FALSE(mutex.try_lock_for(1ms));
    EXPECT_FALSE(mutex.try_lock_shared_for(1ms));
    EXPECT_FALSE(mutex.try_lock_until(std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(mutex.try_lock_shared_until(std::chrono::steady_clock::now()));
    step = 2;
    YieldUntil([&] { return step == 3; });
    EXPECT_FALSE(mutex.try_lock());
    EXPECT_FALSE(mutex.try_lock_for(1ms));
    EXPECT_TRUE(mutex.try_lock_shared());
    mutex.unlock_shared();
    EXPECT_TRUE(mutex.try_lock_shared_for(1s));
    mutex.unlock_shared();
    step = 4;
  });
  crew.Join();
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
}

// A reader that came behind a writer which then gives up must not wait for a writer that is not there.
TEST_P(FiberSharedMutexTest, AWriterThatTimesOutLetsTheReadersBehindItIn) {
  std::atomic<bool> reads{false}, gave_up{false}, other_is_in{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::shared_lock lock(mutex);
    reads = true;
    YieldUntil([&] { return gave_up && other_is_in; });
  });
  crew.Add([&] {
    YieldUntil([&] { return reads.load(); });
    EXPECT_FALSE(mutex.try_lock_for(20ms));
    gave_up = true;
  });
  crew.Add([&] {
    YieldUntil([&] { return reads.load(); });
    synchronization::SleepUntil(5ms,
                                synchronization::Interruptible::kNo);  // Behind the writer, very likely.
    std::shared_lock lock(mutex);
    other_is_in = true;
  });
  crew.Join();
}

TEST_P(FiberSharedMutexTest, ReadersThatComeAndGoDoNotStarveAWriter) {
  std::atomic<bool> written{false};
  Crew crew = MakeCrew();
  // Each holds it until the other has it too: without preference for the writer it would never be free.
  std::atomic<int> generation{0};
  crew.AddMany(2, [&](int) {
    while (!written) {
      std::shared_lock lock(mutex);
      ++generation;
      YieldActor();
    }
  });
  crew.Add([&] {
    YieldUntil([&] { return generation > 2; });
    std::unique_lock lock(mutex);
    written = true;
  });
  crew.Join();
}

TEST_P(FiberSharedMutexTest, WritersThatComeAndGoDoNotStarveAReader) {
  std::atomic<bool> read{false};
  std::atomic<int> writes{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    while (!read) {
      std::unique_lock lock(mutex);
      ++writes;
      YieldActor();
    }
  });
  crew.Add([&] {
    YieldUntil([&] { return writes > 2; });
    std::shared_lock lock(mutex);
    read = true;
  });
  crew.Join();
}

TEST_P(FiberSharedMutexTest, TimeOutsRaceWithHandOffs) {
  const int rounds = Scaled(1000);
  std::atomic<int> readers{0}, writers{0};
  Crew crew = MakeCrew();
  crew.AddMany(8, [&](int me) {
    for (int i = 0; i < rounds; ++i) {
      const bool timed = me < 4;
      const auto timeout = std::chrono::microseconds((i * 3 + me) % 40);
      if ((i + me) % 3 == 0) {
        if (timed) {
          if (!mutex.try_lock_for(timeout)) continue;
        } else {
          mutex.lock();
        }
        EXPECT_EQ(writers.fetch_add(1), 0);
        EXPECT_EQ(readers, 0);
        if (i % 8 == 0) YieldActor();
        writers.fetch_sub(1);
        mutex.unlock();
      } else {
        if (timed) {
          if (!mutex.try_lock_shared_for(timeout)) continue;
        } else {
          mutex.lock_shared();
        }
        readers.fetch_add(1);
        EXPECT_EQ(writers, 0);
        if (i % 8 == 0) YieldActor();
        readers.fetch_sub(1);
        mutex.unlock_shared();
      }
    }
  });
  crew.Join();
  EXPECT_TRUE(mutex.try_lock());  // Nothing is left of it all.
  mutex.unlock();
}

TEST_P(FiberSharedMutexTest, MayBeDestroyedByItsLastOwner) {
  struct Counted {
    FiberSharedMutex mutex;
    int references = 2;
  };
  const int rounds = Scaled(2000);
  std::atomic<Counted*> offer{nullptr};
  auto release = [](Counted* object) {
    object->mutex.lock_shared();
    object->mutex.unlock_shared();
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

WEFT_INSTANTIATE_ON_ANY_CREW(FiberSharedMutexTest);

// The rule, on one worker, where fibers run in the order in which they are ready.
TEST(FiberSharedMutex, GoesByPhases) {
  testing::TimedGroup group(1);
  FiberSharedMutex mutex;
  std::string order;
  Crew crew(&group, testing::ActorKind::kFibers);
  int arrived = 0;
  crew.Add([&] {
    mutex.lock();
    YieldUntil([&] { return arrived == 4; });  // All others wait now.
    mutex.unlock();
  });
  const auto write = [&](char name) {
    ++arrived;
    std::unique_lock lock(mutex);
    order += name;
    YieldActor();
  };
  const auto read = [&](char name) {
    ++arrived;
    std::shared_lock lock(mutex);
    order += name;
    YieldActor();
  };
  crew.Add([&] { write('W'); });
  crew.Add([&] { read('r'); });
  crew.Add([&] { write('X'); });
  crew.Add([&] { read('s'); });
  crew.Join();
  EXPECT_EQ(order, "rsWX") << "after a writer the readers that wait, then the writers in order";
}

TEST(FiberSharedMutexDeathTest, UnlockByNoOwnerEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  FiberSharedMutex mutex;
  EXPECT_DEATH(mutex.unlock(), "FiberSharedMutex::unlock: no writer owns it");
  EXPECT_DEATH(mutex.unlock_shared(), "FiberSharedMutex::unlock_shared: no reader owns it");
}

}  // namespace
}  // namespace weft
