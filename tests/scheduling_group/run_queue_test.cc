// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/queue/run_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

namespace {

// The queue never looks into a fiber: any distinct addresses do.
FiberEntity* Fake(std::uintptr_t n) { return reinterpret_cast<FiberEntity*>(n * 64); }
std::uintptr_t Number(FiberEntity* fiber) { return reinterpret_cast<std::uintptr_t>(fiber) / 64; }

TEST(RunQueue, FibersLeaveInTheOrderInWhichTheyCame) {
  RunQueue queue(8);
  for (std::uintptr_t round = 0; round < 5; ++round) {
    for (std::uintptr_t i = 1; i <= 5; ++i) ASSERT_TRUE(queue.TryPush(Fake(i)));
    for (std::uintptr_t i = 1; i <= 5; ++i) EXPECT_EQ(queue.TryPop(), Fake(i));
    EXPECT_EQ(queue.TryPop(), nullptr);
  }
}

// Only debug builds said so, and only in the end.
TEST(RunQueue, FibersAtAddressesThatDoNotFitIntoAWordAreRefusedBeforeTheyAreMade) {
  constexpr std::uintptr_t kLimit = std::uintptr_t{1} << 48;
  EXPECT_TRUE(RunQueue::FitBelow(reinterpret_cast<void*>(kLimit)));
  EXPECT_FALSE(RunQueue::FitBelow(reinterpret_cast<void*>(kLimit + 1)));
  RunQueue queue(2);
  FiberEntity* last = reinterpret_cast<FiberEntity*>(kLimit - 64);
  ASSERT_TRUE(queue.TryPush(last));
  EXPECT_EQ(queue.TryPop(), last);
}

TEST(RunQueue, AFullQueueRefusesAndTakesAgainAfterAPop) {
  RunQueue queue(4);
  for (std::uintptr_t i = 1; i <= 4; ++i) ASSERT_TRUE(queue.TryPush(Fake(i)));
  EXPECT_FALSE(queue.TryPush(Fake(5)));
  EXPECT_EQ(queue.Size(), 4u);
  EXPECT_EQ(queue.TryPop(), Fake(1));
  EXPECT_TRUE(queue.TryPush(Fake(5)));
  for (std::uintptr_t i = 2; i <= 5; ++i) EXPECT_EQ(queue.TryPop(), Fake(i));
  EXPECT_TRUE(queue.Empty());
}

TEST(RunQueue, CountSeesEachFiberAlsoAroundTheEndOfTheRingAndStopsWhereAsked) {
  RunQueue queue(4);
  EXPECT_EQ(queue.Count(4), 0u);
  for (std::uintptr_t i = 1; i <= 3; ++i) {
    ASSERT_TRUE(queue.TryPush(Fake(i)));
    ASSERT_EQ(queue.TryPop(), Fake(i));
  }
  for (std::size_t i = 1; i <= 4; ++i) {
    ASSERT_TRUE(queue.TryPushAndFence(Fake(i)));
    EXPECT_EQ(queue.Count(100), i);
  }
  EXPECT_FALSE(queue.TryPushAndFence(Fake(5)));
  EXPECT_EQ(queue.Count(2), 2u);
}

// A peer's batch push spins for ever here.
TEST(RunQueue, BatchLargerThanTheQueueTakesWhatFitsAndReturns) {
  RunQueue queue(8);
  std::vector<FiberEntity*> batch;
  for (std::uintptr_t i = 1; i <= 20; ++i) batch.push_back(Fake(i));
  EXPECT_EQ(queue.PushSome(batch.data(), batch.size()), 8u);
  EXPECT_EQ(queue.PushSome(batch.data() + 8, 12), 0u);
  FiberEntity* out[3];
  EXPECT_EQ(queue.PopSome(out, 3), 3u);
  EXPECT_EQ(queue.PushSome(batch.data() + 8, 12), 3u);
  for (std::uintptr_t i = 4; i <= 11; ++i) EXPECT_EQ(queue.TryPop(), Fake(i));
}

TEST(RunQueueDeathTest, TheCapacityMustBeAPowerOfTwo) {
  EXPECT_DEATH(RunQueue queue(12), "power of two.*12");
  EXPECT_DEATH(RunQueue queue(1), "power of two.*1");
}

TEST(RunQueue, ManyProducersAndConsumersLoseAndDoubleNothingAndKeepEachProducersOrder) {
  constexpr int kProducers = 3;
  constexpr int kConsumers = 3;
  constexpr std::uintptr_t kEach = 60'000;
  RunQueue queue(64);
  std::atomic<std::uintptr_t> popped{0};
  std::vector<std::vector<std::uintptr_t>> seen(kConsumers);
  std::vector<std::thread> threads;
  for (std::uintptr_t p = 0; p < kProducers; ++p) {
    threads.emplace_back([&, p] {
      FiberEntity* batch[7];
      for (std::uintptr_t next = 0; next < kEach;) {
        const std::size_t want = std::min<std::uintptr_t>(1 + next % 7, kEach - next);
        for (std::size_t i = 0; i < want; ++i) batch[i] = Fake(1 + p * kEach + next + i);
        std::size_t done = 0;
        while (done < want) {
          const std::size_t n = queue.PushSome(batch + done, want - done);
          if (n == 0) std::this_thread::yield();
          done += n;
        }
        next += want;
      }
    });
  }
  for (int c = 0; c < kConsumers; ++c) {
    threads.emplace_back([&, c] {
      FiberEntity* batch[5];
      while (popped.load() < kProducers * kEach) {
        const std::size_t n = queue.PopSome(batch, 1 + seen[c].size() % 5);
        if (n == 0) std::this_thread::yield();
        for (std::size_t i = 0; i < n; ++i) seen[c].push_back(Number(batch[i]) - 1);
        popped += n;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  std::vector<int> times(kProducers * kEach, 0);
  for (const auto& list : seen) {
    std::vector<std::uintptr_t> last(kProducers, 0);
    for (std::uintptr_t item : list) {
      ++times[item];
      const std::uintptr_t producer = item / kEach;
      EXPECT_LE(last[producer], item) << "a consumer saw a producer's fibers out of order";
      last[producer] = item;
    }
  }
  for (int n : times) ASSERT_EQ(n, 1);
  EXPECT_TRUE(queue.Empty());
}

}  // namespace
}  // namespace weft::scheduling_group
