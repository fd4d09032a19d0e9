// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "weft/scheduling_group/queue/worker_queues.h"

namespace weft::scheduling_group {
namespace {

// The ring never looks into a fiber: any distinct addresses do.
FiberEntity* Fake(std::uintptr_t n) { return reinterpret_cast<FiberEntity*>(n * 64); }
std::uintptr_t Number(FiberEntity* fiber) { return reinterpret_cast<std::uintptr_t>(fiber) / 64; }

TEST(LocalRing, KeepsOrderAndRefusesWhenFull) {
  LocalRing<4> ring;
  for (std::uintptr_t round = 0; round < 3; ++round) {
    EXPECT_TRUE(ring.Empty());
    for (std::uintptr_t i = 1; i <= 4; ++i) EXPECT_TRUE(ring.Push(Fake(i)));
    EXPECT_FALSE(ring.Push(Fake(5)));
    EXPECT_EQ(ring.Size(), 4u);
    for (std::uintptr_t i = 1; i <= 4; ++i) EXPECT_EQ(ring.Pop(), Fake(i));
    EXPECT_EQ(ring.Pop(), nullptr);
  }
}

TEST(LocalRing, HalfIsRoundedUp) {
  LocalRing<8> ring;
  FiberEntity* out[8];
  for (std::uintptr_t i = 1; i <= 5; ++i) ASSERT_TRUE(ring.Push(Fake(i)));
  EXPECT_EQ(ring.PopHalf(out), 3u);
  EXPECT_EQ(ring.PopHalf(out), 1u);
  EXPECT_EQ(out[0], Fake(4));
  EXPECT_EQ(ring.PopAll(out), 1u);
  EXPECT_EQ(ring.PopHalf(out), 0u);
}

TEST(LocalRing, HalfIsAtMostWhatIsAskedFor) {
  LocalRing<8> ring;
  FiberEntity* out[2];
  for (std::uintptr_t i = 1; i <= 8; ++i) ASSERT_TRUE(ring.Push(Fake(i)));
  EXPECT_EQ(ring.PopHalf(out, 2), 2u);
  EXPECT_EQ(out[1], Fake(2));
  EXPECT_EQ(ring.Size(), 6u);
}

// Pop() once returned what it had read before it lost the race for it.
TEST(LocalRing, WhoLosesTheRaceForTheLastFiberGetsNothing) {
  constexpr std::uintptr_t kFibers = 400'000;
  LocalRing<16> ring;
  std::vector<std::atomic<int>> times(kFibers + 1);
  std::atomic<std::uintptr_t> taken{0};
  auto take = [&](FiberEntity* fiber) {
    ++times[Number(fiber)];
    ++taken;
  };
  std::vector<std::thread> thieves;
  for (int t = 0; t < 2; ++t) {
    thieves.emplace_back([&] {
      FiberEntity* out[16];
      while (taken < kFibers) {
        const std::uint32_t n = ring.PopHalf(out);
        for (std::uint32_t i = 0; i < n; ++i) take(out[i]);
        if (n == 0) std::this_thread::yield();
      }
    });
  }
  FiberEntity* out[16];
  for (std::uintptr_t i = 1; i <= kFibers; ++i) {
    while (!ring.Push(Fake(i))) {
      const std::uint32_t n = ring.PopAll(out);
      for (std::uint32_t k = 0; k < n; ++k) take(out[k]);
    }
    if (i % 2 == 0) {
      if (FiberEntity* fiber = ring.Pop()) take(fiber);
    }
  }
  while (FiberEntity* fiber = ring.Pop()) take(fiber);
  for (std::thread& thief : thieves) thief.join();
  for (std::uintptr_t i = 1; i <= kFibers; ++i) ASSERT_EQ(times[i], 1) << i;
}

}  // namespace
}  // namespace weft::scheduling_group
