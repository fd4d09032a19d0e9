// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/stack_wait_list.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

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

}  // namespace
}  // namespace weft::scheduling_group
