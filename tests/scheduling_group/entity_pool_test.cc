// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/entity_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_factory.h"

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

// EP3. Counted in the other order it is: of a thread that always has one, but not always the same, none is seen.
TEST(EntityPool, LiveFibersNeverMissesOneWhileOthersComeAndGo) {
  const std::size_t before = EntityPool::LiveFibers();
  std::atomic<bool> stop{false};
  std::atomic<bool> has_one{false};
  // Threads that have taken part, so that to count takes a while.
  std::vector<std::thread> idle;
  for (int i = 0; i < 50; ++i) {
    idle.emplace_back([&] {
      DiscardFiber(NewFiber(nullptr, {}, [] {}));
      stop.wait(false);
    });
  }
  std::thread takes([&] {
    FiberEntity* one = NewFiber(nullptr, {}, [] {});
    has_one = true;
    while (!stop) DiscardFiber(std::exchange(one, NewFiber(nullptr, {}, [] {})));
    DiscardFiber(one);
  });
  while (!has_one) std::this_thread::yield();
  std::size_t least = before + 1;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < until) {
    const std::size_t live = EntityPool::LiveFibers();
    // Less than none is a very large number. (More than there are may be seen, if we are stopped while we count.)
    if (live < least || live > (std::size_t{1} << 40)) least = 0;
  }
  stop = true;
  stop.notify_all();
  takes.join();
  for (std::thread& thread : idle) thread.join();
  EXPECT_EQ(least, before + 1);
  EXPECT_EQ(EntityPool::LiveFibers(), before);
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

TEST(EntityPool, ANodeHasOneArena) {
  EXPECT_EQ(EntityPool::ArenaOn(-1), EntityPool::kAnywhere);
  const EntityPool::Arena one = EntityPool::ArenaOn(1001);
  const EntityPool::Arena other = EntityPool::ArenaOn(1002);
  EXPECT_NE(one, EntityPool::kAnywhere);
  EXPECT_NE(other, EntityPool::kAnywhere);
  EXPECT_NE(one, other);
  EXPECT_EQ(EntityPool::ArenaOn(1001), one);
  EXPECT_EQ(EntityPool::ArenaOn(1002), other);
}

TEST(EntityPool, WhenThereAreNoMoreArenasFibersLieAnywhere) {
  EXPECT_EXIT(
      {
        std::size_t arenas = 0;
        for (int node = 2000; EntityPool::ArenaOn(node) != EntityPool::kAnywhere; ++node) ++arenas;
        const bool right =
            arenas >= 1 && arenas < EntityPool::kMaxArenas && EntityPool::Take(EntityPool::ArenaOn(9999));
        ::_exit(right ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(EntityPool, AnEntityGoesBackToItsArenaWhereverItsFiberEnds) {
  const EntityPool::Arena here = EntityPool::ArenaOn(1001);
  const EntityPool::Arena there = EntityPool::ArenaOn(1002);
  constexpr std::size_t kFibers = 2000;  // More than a thread keeps for itself.
  std::vector<FiberEntity*> fibers;
  for (std::size_t i = 0; i < kFibers; ++i) fibers.push_back(EntityPool::Take(here));
  const std::set<FiberEntity*> of_here(fibers.begin(), fibers.end());
  std::thread([&] {
    for (FiberEntity* fiber : fibers) EntityPool::GiveBack(fiber);
    std::vector<FiberEntity*> of_there;
    for (std::size_t i = 0; i < kFibers; ++i) of_there.push_back(EntityPool::Take(there));
    for (FiberEntity* fiber : of_there) EXPECT_FALSE(of_here.contains(fiber));
    for (FiberEntity* fiber : of_there) EntityPool::GiveBack(fiber);
  }).join();
  std::size_t used_again = 0;
  for (FiberEntity*& fiber : fibers) {
    fiber = EntityPool::Take(here);
    used_again += of_here.contains(fiber) ? 1 : 0;
  }
  EXPECT_GE(used_again, kFibers / 2) << "they did not come back";
  for (FiberEntity* fiber : fibers) EntityPool::GiveBack(fiber);
}

// Threads that take at one arena and give back what others took, with trims in between.
TEST(EntityPool, AnEntityNeverChangesItsArena) {
  constexpr int kThreads = 4;
  constexpr int kSteps = 20'000;
  const std::array<EntityPool::Arena, 3> arenas{EntityPool::kAnywhere, EntityPool::ArenaOn(1001),
                                                EntityPool::ArenaOn(1002)};
  const std::size_t live_before = EntityPool::LiveFibers();
  struct Taken {
    FiberEntity* fiber;
    EntityPool::Arena arena;
  };
  std::mutex mutex;
  std::vector<Taken> shared;
  std::map<FiberEntity*, EntityPool::Arena> arena_of;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, random = std::minstd_rand(static_cast<unsigned>(t) + 1)]() mutable {
      for (int step = 0; step < kSteps; ++step) {
        // Waves, so that caches overflow and run empty.
        const bool take = random() % 8 < (step / 5000 % 2 == 0 ? 6U : 2U);
        const EntityPool::Arena arena = arenas[random() % arenas.size()];
        FiberEntity* fiber = take ? EntityPool::Take(arena) : nullptr;
        if (step % 2500 == 0) EntityPool::Trim();
        const std::unique_lock lock(mutex);
        if (take) {
          EXPECT_EQ(arena_of.emplace(fiber, arena).first->second, arena);
          shared.push_back({fiber, arena});
        } else if (!shared.empty()) {
          std::swap(shared[random() % shared.size()], shared.back());
          EntityPool::GiveBack(shared.back().fiber);
          shared.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Taken& taken : shared) EntityPool::GiveBack(taken.fiber);
  EXPECT_EQ(EntityPool::LiveFibers(), live_before);
  EXPECT_GT(arena_of.size(), EntityPool::kEntitiesPerChunk);
}

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(EntityPool, MemoryOfABurstGoesBackToTheSystemFromEachArena) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "sanitizers keep memory of their own";
#endif
  constexpr std::size_t kFibers = 200'000;
  for (int node : {1001, 1002}) {
    const EntityPool::Arena arena = EntityPool::ArenaOn(node);
    std::vector<FiberEntity*> fibers(kFibers);
    const std::size_t before = ResidentBytes();
    for (auto& fiber : fibers) fiber = EntityPool::Take(arena);  // Writes the id.
    const std::size_t peak = ResidentBytes();
    EXPECT_GT(peak - before, kFibers * 192 * 9 / 10);
    for (FiberEntity* fiber : fibers) EntityPool::GiveBack(fiber);
    fibers = {};
    EXPECT_EQ(EntityPool::Trim(), 0U);
    EXPECT_LT(ResidentBytes(), before + (peak - before) / 5);
  }
}

// Entities that lay in the caches of a few threads kept a chunk each.
TEST(EntityPool, AnEntityInUseKeepsItsPageAndNotItsChunk) {
  constexpr std::size_t kFibers = 200'000;
  constexpr std::size_t kOneOf = EntityPool::kEntitiesPerChunk / 2;
  const EntityPool::Arena arena = EntityPool::ArenaOn(1003);
  std::vector<FiberEntity*> fibers(kFibers);
  std::map<FiberEntity*, std::uint64_t> kept;
  [[maybe_unused]] const std::size_t before = ResidentBytes();
  for (auto& fiber : fibers) fiber = EntityPool::Take(arena);
  [[maybe_unused]] const std::size_t peak = ResidentBytes();
  for (std::size_t i = 0; i < kFibers; ++i) {
    if (i % kOneOf == 0) {
      kept[fibers[i]] = fibers[i]->id();
    } else {
      EntityPool::GiveBack(fibers[i]);
    }
  }
  fibers = {};
  EntityPool::Trim();
#if !WEFT_ASAN && !WEFT_TSAN  // These keep memory of their own.
  EXPECT_LT(ResidentBytes(), before + (peak - before) / 5);
#endif
  for (const auto& [fiber, id] : kept) EXPECT_EQ(fiber->id(), id);
  // What was trimmed is as good as new.
  std::vector<FiberEntity*> again(kFibers);
  for (auto& fiber : again) {
    fiber = EntityPool::Take(arena);
    EXPECT_EQ(kept.count(fiber), 0u);
  }
  for (FiberEntity* fiber : again) EntityPool::GiveBack(fiber);
  for (const auto& [fiber, id] : kept) EntityPool::GiveBack(fiber);
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

TEST(EntityCache, EachThreadHasACacheOfItsOwn) {
  EntityCache* const ours = LocalEntityCache();
  ASSERT_NE(ours, nullptr);
  EXPECT_EQ(LocalEntityCache(), ours);
  std::thread([&] { EXPECT_NE(LocalEntityCache(), ours); }).join();
}

TEST(EntityCache, EachArenaHasAMagazineOfItsOwn) {
  EntityCache* const cache = LocalEntityCache();
  EntityMagazine* const anywhere = cache->MagazineOf(kAnyNodeArena);
  EntityMagazine* const there = cache->MagazineOf(NodeArenaOn(3000));
  EXPECT_NE(anywhere, there);
  EXPECT_EQ(cache->MagazineOf(NodeArenaOn(3000)), there);
  EXPECT_EQ(cache->MagazineOf(kAnyNodeArena), anywhere);
}

TEST(EntityCache, AMagazineIsFilledAndFlushedByHalves) {
  constexpr std::size_t kHalf = EntityMagazine::kCapacity / 2;
  const NodeArenaIndex arena = NodeArenaOn(3001);
  // With what is in packs.
  const auto free = [arena] {
    NodeArenaAt(arena).DrainPacks();
    return NodeArenaAt(arena).TakeSnapshot().free;
  };
  EntityMagazine magazine;
  ASSERT_TRUE(magazine.TakePacks(arena));
  std::vector<FiberEntity*> taken;
  const auto take = [&](std::size_t n) {
    for (; n != 0; --n) taken.push_back(magazine.Take(arena));
  };
  const auto put = [&](std::size_t n) {
    for (; n != 0; --n) {
      magazine.Put(taken.back(), arena);
      taken.pop_back();
    }
  };
  take(1);
  EXPECT_EQ(free(), kEntitiesPerChunk - kHalf);
  take(3 * kHalf - 1);
  EXPECT_EQ(free(), kEntitiesPerChunk - 3 * kHalf);
  put(2 * kHalf);
  EXPECT_EQ(free(), kEntitiesPerChunk - 3 * kHalf) << "there is room for both halves";
  const FiberEntity* const last = taken.back();
  put(1);
  EXPECT_EQ(free(), kEntitiesPerChunk - 2 * kHalf);
  take(1);
  EXPECT_EQ(taken.back(), last);
  take(kHalf);
  EXPECT_EQ(free(), kEntitiesPerChunk - 2 * kHalf) << "it had a half left";
  take(1);
  EXPECT_EQ(free(), kEntitiesPerChunk - 3 * kHalf);
  put(taken.size());
  magazine.Return(arena);
  EXPECT_EQ(free(), kEntitiesPerChunk);
}

TEST(EntityCache, AThreadThatEndsGivesItsEntitiesBack) {
  const NodeArenaIndex arena = NodeArenaOn(3002);
  std::thread([&] {
    FiberEntity* const taken = LocalEntityCache()->MagazineOf(arena)->Take(arena);
    ASSERT_NE(taken, nullptr);
    EXPECT_EQ(NodeArenaAt(arena).TakeSnapshot().free, kEntitiesPerChunk - EntityPack::kSize);
    LocalEntityCache()->MagazineOf(arena)->Put(taken, arena);
  }).join();
  EXPECT_EQ(NodeArenaAt(arena).TakeSnapshot().free, kEntitiesPerChunk);
}

TEST(EntityCache, IdsOfAllThreadsAreUniqueAndNeverZero) {
  constexpr std::size_t kIds = 5000;  // More than a thread gets at a time.
  std::vector<std::uint64_t> ids(2 * kIds);
  const auto take = [&](std::size_t begin) {
    for (std::size_t i = begin; i < begin + kIds; ++i) ids[i] = LocalEntityCache()->NextFiberId();
  };
  std::thread(take, 0).join();
  take(kIds);
  const std::set<std::uint64_t> different(ids.begin(), ids.end());
  EXPECT_EQ(different.size(), ids.size());
  EXPECT_FALSE(different.contains(0));
}

TEST(EntityCache, TheCountsOfAThreadThatEndedStay) {
  const std::size_t live = EntityPool::LiveFibers();
  std::thread([] {
    for (int i = 0; i < 3; ++i) LocalEntityCache()->CountTaken();
    LocalEntityCache()->CountGivenBack();
  }).join();
  EXPECT_EQ(EntityPool::LiveFibers(), live + 2);
  for (int i = 0; i < 2; ++i) LocalEntityCache()->CountGivenBack();
  EXPECT_EQ(EntityPool::LiveFibers(), live);
}

}  // namespace
}  // namespace weft::scheduling_group
