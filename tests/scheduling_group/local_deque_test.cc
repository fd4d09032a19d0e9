// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/queue/worker_queues.h"

namespace weft::scheduling_group {
namespace {

// The deque never looks into a fiber: any distinct addresses do.
FiberEntity* Fake(std::uintptr_t n) { return reinterpret_cast<FiberEntity*>(n * 64); }
std::uintptr_t Number(FiberEntity* fiber) { return reinterpret_cast<std::uintptr_t>(fiber) / 64; }

TEST(LocalDeque, TheOwnerTakesTheNewestAndOthersTheOldest) {
  LocalDeque<4> deque;
  for (int round = 0; round < 3; ++round) {
    EXPECT_TRUE(deque.Empty());
    for (std::uintptr_t i = 1; i <= 4; ++i) EXPECT_TRUE(deque.Push(Fake(i)));
    EXPECT_FALSE(deque.Push(Fake(5)));
    EXPECT_EQ(deque.Size(), 4u);
    EXPECT_EQ(deque.PopNewest(), Fake(4));
    EXPECT_EQ(deque.Steal(), Fake(1));
    EXPECT_EQ(deque.PopNewest(), Fake(3));
    EXPECT_FALSE(deque.Empty());
    EXPECT_EQ(deque.PopNewest(), Fake(2));
    EXPECT_EQ(deque.PopNewest(), nullptr);
    EXPECT_EQ(deque.Steal(), nullptr);
  }
}

TEST(LocalDeque, TheOwnerTakesManyOfTheOldestInOneStep) {
  LocalDeque<8> deque;
  FiberEntity* out[8];
  EXPECT_EQ(deque.PopOldest(out, 8), 0u);
  for (std::uintptr_t i = 1; i <= 8; ++i) ASSERT_TRUE(deque.Push(Fake(i)));
  EXPECT_EQ(deque.PopOldest(out, 5), 5u);
  for (std::uintptr_t i = 1; i <= 5; ++i) EXPECT_EQ(out[i - 1], Fake(i));
  for (std::uintptr_t i = 9; i <= 13; ++i) EXPECT_TRUE(deque.Push(Fake(i)));
  EXPECT_EQ(deque.PopNewest(), Fake(13));
  EXPECT_EQ(deque.PopOldest(out, 100), 7u);
  EXPECT_EQ(out[0], Fake(6));
  EXPECT_EQ(out[6], Fake(12));
  EXPECT_TRUE(deque.Empty());
}

TEST(LocalDeque, EachFiberIsTakenOnceByItsOwnerOrByOneThief) {
  const std::uintptr_t fibers = WEFT_TSAN || WEFT_ASAN ? 40'000 : 400'000;
  LocalDeque<16> deque;
  std::vector<std::atomic<int>> times(fibers + 1);
  std::atomic<std::uintptr_t> taken{0};
  auto take = [&](FiberEntity* fiber) {
    ++times[Number(fiber)];
    ++taken;
  };
  std::vector<std::thread> thieves;
  for (int t = 0; t < 2; ++t) {
    thieves.emplace_back([&] {
      while (taken < fibers) {
        FiberEntity* fiber = deque.Steal();
        fiber != nullptr ? take(fiber) : std::this_thread::yield();
      }
    });
  }
  FiberEntity* out[16];
  for (std::uintptr_t i = 1; i <= fibers; ++i) {
    while (!deque.Push(Fake(i))) {
      const std::size_t n = deque.PopOldest(out, 8);
      for (std::size_t k = 0; k < n; ++k) take(out[k]);
    }
    // Down to the last one, where the owner and the thieves meet.
    for (std::uintptr_t k = i % 5; k != 0; --k) {
      if (FiberEntity* fiber = deque.PopNewest()) take(fiber);
    }
  }
  while (FiberEntity* fiber = deque.PopNewest()) take(fiber);
  for (std::thread& thief : thieves) thief.join();
  for (std::uintptr_t i = 1; i <= fibers; ++i) ASSERT_EQ(times[i], 1) << i;
}

}  // namespace
}  // namespace weft::scheduling_group
