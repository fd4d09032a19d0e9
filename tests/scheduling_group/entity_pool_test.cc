// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <memory>
#include <set>
#include <thread>

namespace weft::scheduling_group {
namespace {

TEST(EntityPool, AQueuedFiberCostsAtMost200Bytes) {
#if !WEFT_ASAN && !WEFT_TSAN
  EXPECT_LE(sizeof(FiberEntity), 200u);
#endif
  EXPECT_EQ(EntityPool::kChunkBytes / sizeof(FiberEntity), EntityPool::kEntitiesPerChunk);
}

TEST(EntityPool, IdsAreNeverReused) {
  std::set<std::uint64_t> ids;
  for (int round = 0; round < 3; ++round) {
    std::vector<FiberEntity*> fibers;
    for (int i = 0; i < 5000; ++i) {
      fibers.push_back(NewFiber(nullptr, {}, [] {}));
      EXPECT_NE(fibers.back()->id(), 0u);
      EXPECT_TRUE(ids.insert(fibers.back()->id()).second);
    }
    for (FiberEntity* fiber : fibers) DiscardFiber(fiber);
  }
}

TEST(EntityPool, LiveFibersCountsOverThreads) {
  const std::size_t before = EntityPool::LiveFibers();
  std::vector<FiberEntity*> fibers;
  std::thread([&] {
    for (int i = 0; i < 1000; ++i) fibers.push_back(NewFiber(nullptr, {}, [] {}));
  }).join();
  EXPECT_EQ(EntityPool::LiveFibers(), before + 1000);
  for (FiberEntity* fiber : fibers) DiscardFiber(fiber);  // In another thread than the one that made them.
  EXPECT_EQ(EntityPool::LiveFibers(), before);
}

TEST(EntityPool, ACallableIsDestroyedOnceWhetherItLivesInPlaceOrOnTheHeap) {
  auto token = std::make_shared<int>(0);
  DiscardFiber(NewFiber(nullptr, {}, [token] {}));
  EXPECT_EQ(token.use_count(), 1);
  DiscardFiber(NewFiber(nullptr, {}, [token, big = std::array<char, 500>{}] { (void)big; }));
  EXPECT_EQ(token.use_count(), 1);
}

TEST(EntityPool, AFiberKeepsItsNameAndIsFoundByWalkingTheTable) {
  FiberEntity* fiber = NewFiber(nullptr, {.name = "seeker"}, [] {});
  int found = 0;
  EntityPool::ForEach([&](FiberEntity* f) {
    if (f->state().Load() != FiberPhase::kDead && f->id() == fiber->id()) {
      ++found;
      EXPECT_STREQ(f->name(), "seeker");
    }
  });
  EXPECT_EQ(found, 1);
  DiscardFiber(fiber);
}

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(EntityPool, MemoryOfABurstGoesBackToTheSystem) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  constexpr std::size_t kFibers = 300'000;
  std::vector<FiberEntity*> fibers(kFibers);
  const std::size_t before = ResidentBytes();
  for (auto& fiber : fibers) fiber = NewFiber(nullptr, {}, [] {});
  const std::size_t peak = ResidentBytes();
  EXPECT_GT(peak - before, kFibers * 192 * 9 / 10);
  for (FiberEntity* fiber : fibers) DiscardFiber(fiber);
  fibers = {};
  while (EntityPool::Trim() != 0) {
  }
  EXPECT_LT(ResidentBytes(), before + (peak - before) / 5);
  // What was trimmed is as good as new.
  std::vector<FiberEntity*> again(kFibers);
  for (auto& fiber : again) fiber = NewFiber(nullptr, {}, [] {});
  for (FiberEntity* fiber : again) DiscardFiber(fiber);
}

}  // namespace
}  // namespace weft::scheduling_group
