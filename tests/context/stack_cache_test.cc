// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "weft/context/stack/stack_pool.h"

namespace weft::context {
namespace {

TEST(StackCache, GivesTheWarmestFirst) {
  StackPool pool({});
  StackCache cache(&pool);
  void* first = cache.Pop();
  void* second = cache.Pop();
  cache.Push(second);
  cache.Push(first);
  EXPECT_EQ(cache.Pop(), first);
  EXPECT_EQ(cache.Pop(), second);
  cache.Push(first);
  cache.Push(second);
}

TEST(StackCache, ExchangesHalfOfItselfWithThePool) {
  StackPool pool({});
  {
    StackCache cache(&pool);
    void* top = cache.Pop();
    EXPECT_EQ(cache.size(), 15u);
    EXPECT_EQ(pool.statistics().in_use, 16u);
    cache.Push(top);
    std::vector<void*> tops(40);
    ASSERT_EQ(pool.AcquireBatch(tops.data(), tops.size()), tops.size());
    for (void* each : tops) cache.Push(each);
    EXPECT_LE(cache.size(), 32u);
    EXPECT_GE(cache.size(), 16u);
    // The remaining ones are the warmest.
    for (int i = 39; i >= 30; --i) EXPECT_EQ(cache.Pop(), tops[static_cast<std::size_t>(i)]);
    for (int i = 30; i <= 39; ++i) cache.Push(tops[static_cast<std::size_t>(i)]);
    cache.Clear();
    EXPECT_EQ(cache.size(), 0u);
    EXPECT_EQ(pool.statistics().in_use, 0u);
    cache.Push(pool.Acquire());
  }
  EXPECT_EQ(pool.statistics().in_use, 0u);
}

#if WEFT_ASAN
using StackCacheDeathTest = ::testing::Test;

TEST(StackCacheDeathTest, AsanReportsTheUseOfAStackThatWasGivenBack) {
  StackPool pool({});
  StackCache cache(&pool);
  void* top = cache.Pop();
  static_cast<volatile char*>(top)[-64] = 1;
  cache.Push(top);
  EXPECT_DEATH(static_cast<volatile char*>(top)[-64] = 1, "use-after-poison");
}

TEST(StackCache, NothingIsPoisonedWhereAPoolHasBeen) {
  std::vector<void*> tops(100);
  const auto is_poisoned = [](void* top) { return __asan_address_is_poisoned(static_cast<char*>(top) - 64) != 0; };
  {
    StackPool pool({});
    ASSERT_EQ(pool.AcquireBatch(tops.data(), tops.size()), tops.size());
    pool.ReleaseBatch(tops.data(), tops.size());
    EXPECT_TRUE(std::all_of(tops.begin(), tops.end(), is_poisoned));
  }
  EXPECT_TRUE(std::none_of(tops.begin(), tops.end(), is_poisoned));
}
#endif

}  // namespace
}  // namespace weft::context
