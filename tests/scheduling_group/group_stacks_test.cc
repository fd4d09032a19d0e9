// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/group_stacks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

class GroupStacksTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kStackSize = 65'536;

  static context::StackPool::Options Options(void* owner) {
    context::StackPool::Options options;
    options.stack_size = kStackSize;
    options.owner = owner;
    return options;
  }

  int owner_ = 0;
  GroupStacks stacks_{Options(&owner_)};
};

TEST_F(GroupStacksTest, ThePoolIsOfTheGroupsSizeAndCustomPoolsAreOthers) {
  EXPECT_GE(stacks_.pool().usable_size(), kStackSize - 4096);
  EXPECT_NE(stacks_.OfSize(kStackSize, 0), &stacks_.pool());
}

// CP1, CP2
TEST_F(GroupStacksTest, SizesThatRoundToTheSamePowerOfTwoShareAPool) {
  std::set<context::StackPool*> pools;
  for (std::size_t size = GroupStacks::kMinStackSize; size <= (std::size_t{1} << 24); size *= 2) {
    context::StackPool* pool = stacks_.OfSize(size, 0);
    ASSERT_NE(pool, nullptr);
    EXPECT_GE(pool->usable_size(), size - 4096);
    EXPECT_LE(pool->usable_size(), size);
    EXPECT_EQ(stacks_.OfSize(size - 1, 0), pool);
    EXPECT_EQ(stacks_.OfSize(size / 2 + 1, 0), pool);
    EXPECT_TRUE(pools.insert(pool).second) << size;
  }
  EXPECT_EQ(stacks_.OfSize(1, 0), stacks_.OfSize(GroupStacks::kMinStackSize, 0));
}

TEST_F(GroupStacksTest, EachGuardHasItsPools) {
  std::set<context::StackPool*> pools{stacks_.OfSize(kStackSize, 0)};
  for (std::size_t guard = GroupStacks::kMinGuardSize; guard <= GroupStacks::kMaxGuardSize; guard *= 2) {
    context::StackPool* pool = stacks_.OfSize(kStackSize, guard);
    ASSERT_NE(pool, nullptr);
    EXPECT_EQ(stacks_.OfSize(kStackSize, guard - 1), pool);
    EXPECT_TRUE(pools.insert(pool).second) << guard;
  }
  // The largest guard of a size is not the first pool of the next size.
  EXPECT_TRUE(pools.insert(stacks_.OfSize(2 * kStackSize, 0)).second);
}

TEST_F(GroupStacksTest, APoolBelongsToTheGroupToWhichItsStacksAreGivenBack) {
  EXPECT_EQ(stacks_.pool().owner(), &owner_);
  EXPECT_EQ(stacks_.OfSize(4 * kStackSize, 0)->owner(), &owner_);
}

TEST_F(GroupStacksTest, TrimKeepsSomeStacksOfTheGroupsSizeAndNoneOfOthers) {
  context::StackPool& custom = *stacks_.OfSize(4 * kStackSize, 0);
  for (context::StackPool* pool : {&stacks_.pool(), &custom}) {
    std::vector<void*> tops(4);
    ASSERT_EQ(pool->AcquireBatch(tops.data(), tops.size()), tops.size());
    for (void* top : tops) std::memset(static_cast<char*>(top) - 1024, 1, 1024);
    pool->ReleaseBatch(tops.data(), tops.size());
  }
  EXPECT_EQ(stacks_.Trim(/*keep_warm=*/2), 0u);
  EXPECT_EQ(stacks_.pool().statistics().free_warm, 2u);
  EXPECT_EQ(custom.statistics().free_warm, 0u);
}

TEST_F(GroupStacksTest, SizesBeyondTheLargestAbort) {
  EXPECT_DEATH((void)stacks_.OfSize(GroupStacks::kMaxStackSize + 1, 0), "is the most");
  EXPECT_DEATH((void)stacks_.OfSize(kStackSize, GroupStacks::kMaxGuardSize + 1), "is the most");
}

class StackWaitListTest : public PolicyFixture {};

TEST_F(StackWaitListTest, FibersComeInTheOrderInWhichTheyWereAdded) {
  StackWaitList list;
  EXPECT_TRUE(list.Empty());
  EXPECT_EQ(list.Take(), nullptr);
  const auto f = NewFibers(3);
  list.Add(f[0]);
  list.Add(f[1]);
  EXPECT_FALSE(list.Empty());
  EXPECT_EQ(list.Take(), f[0]);
  list.Add(f[2]);
  EXPECT_EQ(list.Take(), f[1]);
  EXPECT_EQ(list.Take(), f[2]);
  EXPECT_TRUE(list.Empty());
  EXPECT_EQ(list.Take(), nullptr);
}

TEST_F(StackWaitListTest, AFiberThatFindsNoStackAgainGoesBehindTheOthers) {
  StackWaitList list;
  const auto f = NewFibers(2);
  list.Add(f[0]);
  list.Add(f[1]);
  list.Add(list.Take());
  EXPECT_EQ(list.Take(), f[1]);
  EXPECT_EQ(list.Take(), f[0]);
  list.Add(f[1]);  // To a list that was empty once.
  EXPECT_EQ(list.Take(), f[1]);
}

TEST_F(StackWaitListTest, ThreadsThatAddAndTakeLoseNoFiberAndGetNoneTwice) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kFibers = 500;
  StackWaitList list;
  std::vector<std::vector<FiberEntity*>> added;
  for (std::size_t t = 0; t < kThreads; ++t) added.push_back(NewFibers(kFibers));
  std::vector<std::vector<FiberEntity*>> taken(kThreads);
  std::atomic<std::size_t> left{kThreads * kFibers};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (FiberEntity* fiber : added[t]) list.Add(fiber);
      while (left.load() != 0) {
        if (FiberEntity* fiber = list.Take()) {
          taken[t].push_back(fiber);
          --left;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<FiberEntity*> all;
  std::vector<FiberEntity*> expected;
  for (const auto& some : taken) all.insert(all.end(), some.begin(), some.end());
  for (const auto& some : added) expected.insert(expected.end(), some.begin(), some.end());
  std::sort(all.begin(), all.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(all, expected);
  EXPECT_TRUE(list.Empty());
}

class StackMarkTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 4096;
  std::byte* top() { return memory_.data() + kSize; }

  alignas(16) std::array<std::byte, kSize + 16> memory_{};
};

TEST_F(StackMarkTest, WhatIsWrittenFarthestDownCounts) {
  FillStack(top(), kSize);
  EXPECT_EQ(MeasureStack(top(), kSize), 0U) << "nothing has been written";
  *(top() - 8) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 8U);
  *(top() - 1000) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 1000U);
  *(top() - 500) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 1000U);
}

TEST_F(StackMarkTest, ItStaysWithinTheStack) {
  *top() = std::byte{7};
  FillStack(top(), kSize);
  EXPECT_EQ(*top(), std::byte{7});
}

TEST_F(StackMarkTest, OneThatWasNotFilledIsIgnored) { EXPECT_EQ(MeasureStack(top(), kSize), 0U); }

}  // namespace
}  // namespace weft::scheduling_group
