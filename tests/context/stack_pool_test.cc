// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_pool.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/tests/context/faulty_memory.h"

namespace weft::context {
namespace {

constexpr std::size_t kPage = 4096;

// Collects log lines.
class LogCapture {
 public:
  LogCapture() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~LogCapture() { base::SetLogSink(nullptr); }
  int Count(const std::string& part) {
    std::lock_guard lock(mutex_);
    return static_cast<int>(std::count_if(lines_.begin(), lines_.end(),
                                          [&](const std::string& line) { return line.find(part) != line.npos; }));
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Asks the kernel, so that nothing dies.
bool IsReadable(const void* address) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const bool readable = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return readable;
}

std::size_t CountMappings() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  std::size_t count = 0;
  while (std::getline(maps, line)) ++count;
  return count;
}

std::size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * kPage;
}

std::vector<void*> AcquireMany(StackPool& pool, std::size_t n) {
  std::vector<void*> tops(n);
  tops.resize(pool.AcquireBatch(tops.data(), n));
  return tops;
}

void Touch(void* top, std::size_t bytes) { std::memset(static_cast<char*>(top) - bytes, 0x5a, bytes); }

StackBounds BoundsOf(void* top) {
  StackBounds bounds;
  EXPECT_TRUE(FindStack(static_cast<char*>(top) - 1, &bounds));
  return bounds;
}

TEST(StackPool, GivesStacksThatCanBeWrittenFromEndToEnd) {
  StackPool pool({.stack_size = 32 * 1024});
  EXPECT_GE(pool.usable_size(), 32u * 1024 - 4096);
  void* first = pool.Acquire();
  void* second = pool.Acquire();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  Touch(first, pool.usable_size());
  Touch(second, pool.usable_size());
  EXPECT_GE(static_cast<std::size_t>(std::abs(static_cast<char*>(first) - static_cast<char*>(second))),
            pool.usable_size() + kPage);
  pool.Release(first);
  pool.Release(second);
}

TEST(StackPool, RoundsTheStackSizeUpToPages) {
  StackPool pool({.stack_size = 10000});
  EXPECT_GE(pool.usable_size(), 10000u);
  void* top = pool.Acquire();
  const StackBounds bounds = BoundsOf(top);
  EXPECT_EQ(bounds.high - bounds.low, 12288);
  pool.Release(top);
}

TEST(StackPool, ReusesTheWarmestStackFirst) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 3);
  pool.Release(tops[1]);
  pool.Release(tops[0]);
  pool.Release(tops[2]);
  EXPECT_EQ(pool.Acquire(), tops[2]);
  EXPECT_EQ(pool.Acquire(), tops[0]);
  EXPECT_EQ(pool.Acquire(), tops[1]);
  pool.ReleaseBatch(tops.data(), 3);
}

TEST(StackPool, TheLastOfABatchIsTheWarmest) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 5);
  pool.ReleaseBatch(tops.data(), 5);
  std::vector<void*> again = AcquireMany(pool, 2);
  EXPECT_EQ(again, (std::vector<void*>{tops[3], tops[4]}));
  pool.ReleaseBatch(again.data(), 2);
}

TEST(StackPool, TopsLieAtDifferentPlacesInTheirPages) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 64);
  std::set<std::uintptr_t> colours;
  for (void* top : tops) {
    const auto address = reinterpret_cast<std::uintptr_t>(top);
    EXPECT_EQ(address % 64, 0u);
    colours.insert(address % kPage);
    EXPECT_LE(BoundsOf(top).high - static_cast<char*>(top), 1024);
  }
  EXPECT_EQ(colours.size(), 16u);
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, AGuardLiesBelowEachStack) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 200);
  for (void* top : tops) {
    const StackBounds bounds = BoundsOf(top);
    EXPECT_TRUE(IsReadable(bounds.low));
    EXPECT_FALSE(IsReadable(bounds.low - 1));
    EXPECT_FALSE(IsReadable(bounds.guard_low));
  }
  EXPECT_EQ(pool.statistics().unguarded, 0u);
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, GuardsOutliveTrimming) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 100);
  for (void* top : tops) Touch(top, 100);
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(pool.Trim(0), 0u);
  tops = AcquireMany(pool, 100);
  for (void* top : tops) EXPECT_FALSE(IsReadable(BoundsOf(top).low - 1));
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, TwoHundredThousandGuardedStacksNeedAHandfulOfMappings) {
  // Under a sanitizer their shadow memory is larger than they are.
  constexpr std::size_t kStacks = WEFT_ASAN || WEFT_TSAN ? 20000 : 200000;
  const std::size_t before = CountMappings();
  {
    StackPool pool({.populate = false});
    std::vector<void*> tops = AcquireMany(pool, kStacks);
    ASSERT_EQ(tops.size(), kStacks);
    const StackPool::Statistics statistics = pool.statistics();
    if (statistics.guarded_by_mprotect != 0) {
      pool.ReleaseBatch(tops.data(), tops.size());  // Later tests need the mappings.
      GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL";
    }
    EXPECT_EQ(statistics.unguarded, 0u);
    EXPECT_LT(CountMappings(), before + 30);
    for (std::size_t i = 0; i < tops.size(); i += 9973) EXPECT_FALSE(IsReadable(BoundsOf(tops[i]).low - 1));
    pool.ReleaseBatch(tops.data(), tops.size());
  }
  EXPECT_LT(CountMappings(), before + 30);
}

TEST(StackPool, AShallowStackCostsOnePage) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "shadow memory counts too";
#else
  constexpr std::size_t kStacks = 5000;
  StackPool pool({.populate = false});
  const std::size_t before = ResidentBytes();
  std::vector<void*> tops = AcquireMany(pool, kStacks);
  EXPECT_LT(ResidentBytes() - before, kStacks * 200);
  for (void* top : tops) Touch(top, 2048);
  EXPECT_LT(ResidentBytes() - before, kStacks * (kPage + 200));
  // Nor does giving it back and getting it again touch another.
  pool.ReleaseBatch(tops.data(), kStacks);
  EXPECT_EQ(AcquireMany(pool, kStacks), tops);
  EXPECT_LT(ResidentBytes() - before, kStacks * (kPage + 200));
  pool.ReleaseBatch(tops.data(), kStacks);
#endif
}

TEST(StackPool, TrimGivesTheMemoryBackAndKeepsTheWarmest) {
  constexpr std::size_t kStacks = 5000;
  StackPool pool({});
  [[maybe_unused]] const std::size_t before = ResidentBytes();
  std::vector<void*> tops = AcquireMany(pool, kStacks);
  for (void* top : tops) Touch(top, 8192);
  pool.ReleaseBatch(tops.data(), kStacks);
  EXPECT_EQ(pool.statistics().free_warm, kStacks);
#if !WEFT_ASAN && !WEFT_TSAN
  EXPECT_GT(ResidentBytes() - before, kStacks * 8192);
#endif
  EXPECT_EQ(pool.Trim(100), 0u);
  EXPECT_EQ(pool.statistics().free_warm, 100u);
  EXPECT_EQ(pool.statistics().in_use, 0u);
  EXPECT_GT(pool.statistics().free_cold, 0u);
#if !WEFT_ASAN && !WEFT_TSAN
  EXPECT_LT(ResidentBytes() - before, kStacks * 400);
#endif
  // The warm ones come first, the last released before all others; a cold one reads as zero.
  EXPECT_EQ(pool.Acquire(), tops[kStacks - 1]);
  std::vector<void*> warm = AcquireMany(pool, 99);
  EXPECT_EQ(warm.front(), tops[kStacks - 100]);
  void* cold = pool.Acquire();
  EXPECT_EQ(static_cast<char*>(cold)[-100], 0);
  pool.Release(cold);
  pool.ReleaseBatch(warm.data(), warm.size());
  pool.Release(tops[kStacks - 1]);
}

TEST(StackPool, TrimStopsAtItsLimitAndSaysWhatIsLeft) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 1000);
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(pool.Trim(100, 300), 600u);
  EXPECT_EQ(pool.Trim(100, 300), 300u);
  EXPECT_EQ(pool.Trim(100, 300), 0u);
  EXPECT_EQ(pool.Trim(100, 300), 0u);
  EXPECT_EQ(pool.statistics().free_warm, 100u);
}

TEST(StackPool, ABurstOfStacksLeavesNoMemoryBehindInTheFreeList) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "shadow memory counts too";
#else
  constexpr std::size_t kStacks = 200000;
  StackPool pool({.populate = false});
  std::vector<void*> tops(kStacks);
  const std::size_t before = ResidentBytes();
  ASSERT_EQ(pool.AcquireBatch(tops.data(), kStacks), kStacks);
  pool.ReleaseBatch(tops.data(), kStacks);
  EXPECT_EQ(pool.Trim(64), 0u);
  EXPECT_LT(ResidentBytes() - before, 400u * 1024);
  EXPECT_EQ(pool.statistics().free_warm, 64u);
#endif
}

std::size_t PageTableBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmPTE:", 0) == 0) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

TEST(StackPool, ColdStacksGiveTheirPageTablesBackAndAreAsNew) {
  constexpr std::size_t kStacks = 20000;
  StackPool pool({.populate = false});
  std::vector<void*> tops(kStacks);
  for (int round = 0; round < 3; ++round) {
    [[maybe_unused]] const std::size_t before = PageTableBytes();
    ASSERT_EQ(pool.AcquireBatch(tops.data(), kStacks), kStacks);
    if (pool.statistics().guarded_by_mprotect != 0) {
      pool.ReleaseBatch(tops.data(), kStacks);
      GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL";
    }
    EXPECT_EQ(pool.statistics().guarded_by_madvise, kStacks);
    for (std::size_t i = 0; i < kStacks; i += 997) {
      EXPECT_FALSE(IsReadable(BoundsOf(tops[i]).low - 1));
      Touch(tops[i], 4096);
    }
#if !WEFT_ASAN && !WEFT_TSAN
    EXPECT_GT(PageTableBytes(), before + kStacks * 200);
#endif
    pool.ReleaseBatch(tops.data(), kStacks);
    EXPECT_EQ(pool.Trim(0), 0u);
    EXPECT_EQ(pool.statistics().free_warm, 0u);
    // All but the last, which have neighbours that were never used.
    EXPECT_LT(pool.statistics().free_cold, 64u);
    EXPECT_EQ(pool.statistics().guarded_by_madvise, pool.statistics().free_cold);
#if !WEFT_ASAN && !WEFT_TSAN
    EXPECT_LT(PageTableBytes(), before + kStacks * 10);
#endif
  }
}

TEST(StackPool, StacksThatAreAsNewHaveGivenTheirMappingsBack) {
  FaultyMemory memory;
  memory.has_guards = false;
  memory.max_map_count = 400;
  LogCapture log;
  StackPool pool({.memory = &memory});
  StackPool other({.memory = &memory});
  const std::size_t before = CountMappings();
  std::vector<void*> tops = AcquireMany(pool, 90);
  EXPECT_EQ(pool.statistics().guarded_by_mprotect, 90u);
  EXPECT_GT(CountMappings(), before + 170);
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(pool.Trim(0), 0u);
  EXPECT_LT(CountMappings(), before + 10);
  tops = AcquireMany(other, 90);
  EXPECT_EQ(other.statistics().guarded_by_mprotect, 90u);
  other.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, WhatATrimHasInItsHandsIsNoReasonToRefuse) {
  constexpr std::size_t kStacks = 64;
  StackPool pool({.stack_size = 16 * 1024, .max_stacks = kStacks});
  std::atomic<bool> stop{false};
  std::thread trimmer([&] {
    while (!stop) pool.Trim(0);
  });
  for (int i = 0; i < 3000; ++i) {
    std::vector<void*> tops = AcquireMany(pool, kStacks);
    ASSERT_EQ(tops.size(), kStacks);
    pool.ReleaseBatch(tops.data(), tops.size());
  }
  stop = true;
  trimmer.join();
}

TEST(StackPool, ColdStacksAreUsedBeforeNewOnesAreMade) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 300);
  pool.ReleaseBatch(tops.data(), tops.size());
  pool.Trim(10);
  std::vector<void*> again = AcquireMany(pool, 300);
  std::sort(tops.begin(), tops.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(tops, again);
  EXPECT_EQ(pool.statistics().free_cold, 0u);
  pool.ReleaseBatch(again.data(), again.size());
}

TEST(StackPool, ATopIsTheSameEachTime) {
  StackPool pool({});
  std::vector<void*> tops = AcquireMany(pool, 100);
  const std::set<void*> first(tops.begin(), tops.end());
  for (int round = 0; round < 3; ++round) {
    pool.ReleaseBatch(tops.data(), tops.size());
    pool.Trim(round * 30);
    tops = AcquireMany(pool, 100);
    EXPECT_EQ(std::set<void*>(tops.begin(), tops.end()), first);
  }
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, FallsBackToMprotectWithoutGuardRegions) {
  FaultyMemory memory;
  memory.has_guards = false;
  StackPool pool({.memory = &memory});
  std::vector<void*> tops = AcquireMany(pool, 100);
  EXPECT_EQ(pool.statistics().guarded_by_madvise, 0u);
  EXPECT_GE(pool.statistics().guarded_by_mprotect, 100u);
  for (void* top : tops) {
    EXPECT_FALSE(IsReadable(BoundsOf(top).low - 1));
    Touch(top, pool.usable_size());
  }
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(pool.Trim(0), 0u);
  tops = AcquireMany(pool, 100);
  for (void* top : tops) EXPECT_FALSE(IsReadable(BoundsOf(top).low - 1));
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, LeavesHalfOfTheMappingsToTheProgram) {
  FaultyMemory memory;
  memory.has_guards = false;
  memory.max_map_count = 400;
  const std::size_t before = CountMappings();
  LogCapture log;
  {
    StackPool pool({.memory = &memory});
    StackPool other({.memory = &memory});
    std::vector<void*> tops = AcquireMany(pool, 1000);
    std::vector<void*> more = AcquireMany(other, 1000);
    ASSERT_EQ(tops.size(), 1000u);
    ASSERT_EQ(more.size(), 1000u);
    EXPECT_EQ(pool.statistics().guarded_by_mprotect + other.statistics().guarded_by_mprotect, 100u);
    EXPECT_GE(pool.statistics().unguarded, 900u);
    EXPECT_LT(CountMappings(), before + 200 + 20);
    EXPECT_FALSE(IsReadable(BoundsOf(*std::min_element(tops.begin(), tops.end())).low - 1));
    pool.ReleaseBatch(tops.data(), tops.size());
    other.ReleaseBatch(more.data(), more.size());
    EXPECT_EQ(log.Count("no more guard pages"), 2);  // One for each pool.
  }
  // What a pool had taken comes back with it.
  StackPool pool({.memory = &memory});
  std::vector<void*> tops = AcquireMany(pool, 64);
  EXPECT_EQ(pool.statistics().guarded_by_mprotect, 64u);
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, GoesOnUnguardedWhenMprotectIsRefused) {
  FaultyMemory memory;
  memory.has_guards = false;
  memory.protects_left = 10;
  LogCapture log;
  StackPool pool({.memory = &memory});
  std::vector<void*> tops = AcquireMany(pool, 500);
  EXPECT_EQ(tops.size(), 500u);
  EXPECT_EQ(pool.statistics().guarded_by_mprotect, 10u);
  EXPECT_GE(pool.statistics().unguarded, 490u);
  for (void* top : tops) Touch(top, pool.usable_size());
  pool.ReleaseBatch(tops.data(), tops.size());  // All canaries are as they were.
  EXPECT_EQ(pool.Trim(0), 0u);
  tops = AcquireMany(pool, 500);
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(log.Count("no more guard pages"), 1);
}

[[maybe_unused]] bool HasSharedZeroPage() {
  constexpr std::size_t kBytes = std::size_t{16} << 20;
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || ::madvise(memory, kBytes, MADV_NOHUGEPAGE) != 0) return false;
  const std::size_t before = ResidentBytes();
  for (std::size_t i = 0; i < kBytes; i += 4096) {
    static_cast<void>(*(static_cast<const volatile char*>(memory) + i));
  }
  const std::size_t after = ResidentBytes();
  ::munmap(memory, kBytes);
  return after < before + kBytes / 2;
}

TEST(StackPool, LookingAtACanaryCostsNoMemory) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "shadow memory counts too";
#else
  if (!HasSharedZeroPage()) GTEST_SKIP() << "the kernel gives memory to a page that is only read";
  constexpr std::size_t kStacks = 5000;
  FaultyMemory memory;
  memory.has_guards = false;
  memory.max_map_count = 4;
  LogCapture log;
  StackPool pool({.populate = false, .memory = &memory});
  const std::size_t before = ResidentBytes();
  std::vector<void*> tops = AcquireMany(pool, kStacks);
  EXPECT_GE(pool.statistics().unguarded, kStacks - 1);
  pool.ReleaseBatch(tops.data(), kStacks);
  EXPECT_LT(ResidentBytes() - before, kStacks * 200);
#endif
}

using StackPoolDeathTest = ::testing::Test;

TEST(StackPoolDeathTest, AnOverflowOfAnUnguardedStackIsFoundWhenItComesBack) {
  FaultyMemory memory;
  memory.has_guards = false;
  memory.protects_left = 0;
  LogCapture log;
  StackPool pool({.memory = &memory});
  StackCache cache(&pool);
  void* top = pool.Acquire();
  char* low = BoundsOf(top).low;
  low[-200] = 1;
  EXPECT_DEATH(pool.Release(top), "without guard page was written to below its end");
  EXPECT_DEATH(cache.Push(top), "without guard page was written to below its end");
  low[-200] = 0;
  pool.Release(top);
}

TEST(StackPool, WithoutGuardsNothingIsProtectedOrChecked) {
  FaultyMemory memory;
  StackPool pool({.guard = false, .memory = &memory});
  void* top = pool.Acquire();
  char* low = BoundsOf(top).low;
  low[-200] = 1;
  EXPECT_GE(pool.statistics().unguarded, 1u);
  EXPECT_EQ(pool.statistics().guarded_by_madvise, 0u);
  pool.Release(top);
}

TEST(StackPool, ReturnsNullWhenTheSystemHasNoMemoryAndGoesOnWhenItHas) {
  FaultyMemory memory;
  memory.largest_map = 0;
  LogCapture log;
  StackPool pool({.memory = &memory});
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_EQ(pool.Acquire(), nullptr);
  EXPECT_EQ(log.Count("out of stacks"), 1);  // One a second.
  EXPECT_EQ(pool.statistics().in_use, 0u);
  StackCache cache(&pool);
  EXPECT_EQ(cache.Pop(), nullptr);
  memory.largest_map = std::size_t{1} << 40;
  void* top = pool.Acquire();
  EXPECT_NE(top, nullptr);
  pool.Release(top);
  top = cache.Pop();
  EXPECT_NE(top, nullptr);
  cache.Push(top);
}

TEST(StackPool, MakesDoWithSmallArenasWhereAddressSpaceIsShort) {
  FaultyMemory memory;
  memory.largest_map = 16 << 20;
  StackPool pool({.memory = &memory});
  std::vector<void*> tops = AcquireMany(pool, 1000);
  EXPECT_EQ(tops.size(), 1000u);
  EXPECT_EQ(std::set<void*>(tops.begin(), tops.end()).size(), 1000u);
  pool.ReleaseBatch(tops.data(), tops.size());
  EXPECT_EQ(pool.Trim(0), 0u);
  std::vector<void*> again = AcquireMany(pool, 1000);
  EXPECT_EQ(std::set<void*>(again.begin(), again.end()), std::set<void*>(tops.begin(), tops.end()));
  pool.ReleaseBatch(again.data(), again.size());
}

TEST(StackPool, HandsOutWhatIsThereWhenABatchCannotBeFilled) {
  LogCapture log;
  StackPool pool({.max_stacks = 10});
  std::vector<void*> tops = AcquireMany(pool, 20);
  EXPECT_EQ(tops.size(), 10u);
  EXPECT_EQ(pool.Acquire(), nullptr);
  pool.Release(tops.back());
  EXPECT_EQ(pool.Acquire(), tops.back());
  pool.ReleaseBatch(tops.data(), tops.size());
}

TEST(StackPool, StacksOfANodeCanBeAskedFor) {
  StackPool pool({.node = 0});
  void* top = pool.Acquire();
  ASSERT_NE(top, nullptr);
  Touch(top, pool.usable_size());
  pool.Release(top);
}

TEST(StackPool, ItsAddressesAreKnownToTheRegistryAsLongAsItLives) {
  void* top = nullptr;
  StackBounds bounds;
  {
    StackPool pool({});
    top = pool.Acquire();
    ASSERT_TRUE(FindStack(static_cast<char*>(top) - 1, &bounds));
    EXPECT_EQ(bounds.low - bounds.guard_low, 68 * 1024);  // 64, and a page for an odd number of them.
    EXPECT_EQ(bounds.high - bounds.low, 128 * 1024);
    EXPECT_LE(bounds.low, static_cast<char*>(top) - pool.usable_size());
    StackBounds of_guard;
    ASSERT_TRUE(FindStack(bounds.guard_low, &of_guard));
    EXPECT_EQ(of_guard.low, bounds.low);
    int local = 0;
    EXPECT_FALSE(FindStack(&local, &of_guard));
    pool.Release(top);
  }
  EXPECT_FALSE(FindStack(static_cast<char*>(top) - 1, &bounds));
}

TEST(StackPool, DestroyedWithStacksInUseItLeavesThemAlone) {
  void* top = nullptr;
  LogCapture log;
  {
    StackPool pool({});
    top = pool.Acquire();
  }
  EXPECT_EQ(log.Count("while 1 stacks are in use"), 1);
  Touch(top, 1000);
}

TEST(StackPool, NoStackIsInTwoHandsUnderContention) {
  StackPool pool({.stack_size = 16 * 1024});
  std::atomic<bool> wrong{false};
  std::atomic<int> running{4};
  std::vector<std::thread> threads;
  for (std::uintptr_t id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      StackCache cache(&pool);
      std::vector<void*> held;
      std::uint64_t random = id * 7919;
      for (int i = 0; i < 20000; ++i) {
        random = random * 6364136223846793005ULL + 1442695040888963407ULL;
        const bool through_cache = (random >> 40) % 4 != 0;
        if (held.size() < 50 && ((random >> 33) % 2 == 0 || held.empty())) {
          void* top = through_cache ? cache.Pop() : pool.Acquire();
          auto* word = static_cast<std::uintptr_t*>(top) - 1;
          if (*word >= 1 && *word <= 4) wrong = true;  // Someone else's.
          *word = id;
          held.push_back(top);
        } else {
          void* top = held.back();
          held.pop_back();
          auto* word = static_cast<std::uintptr_t*>(top) - 1;
          if (*word != id) wrong = true;
          *word = 0;
          through_cache ? cache.Push(top) : pool.Release(top);
        }
      }
      for (void* top : held) {
        static_cast<std::uintptr_t*>(top)[-1] = 0;
        cache.Push(top);
      }
      --running;
    });
  }
  while (running > 0) pool.Trim(5, 50);
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(wrong);
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

}  // namespace
}  // namespace weft::context
