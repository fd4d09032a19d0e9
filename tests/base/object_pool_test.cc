// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/memory/object_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <memory>
#include <set>

namespace weft::base {
namespace {

// This thread stays on its CPU meanwhile: the pool has a part for each.
class OnThisCpu {
 public:
  OnThisCpu() {
    EXPECT_EQ(::sched_getaffinity(0, sizeof(before_), &before_), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(::sched_getcpu(), &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
  }
  ~OnThisCpu() { EXPECT_EQ(::sched_setaffinity(0, sizeof(before_), &before_), 0); }

 private:
  cpu_set_t before_;
};

TEST(ObjectPoolTest, TheLastOneComesBackFirstAndFewAreKept) {
  const OnThisCpu stays;
  ObjectPool<int> pool;
  EXPECT_EQ(pool.Take(), nullptr);
  for (int i = 0; i < 100; ++i) pool.Put(std::make_unique<int>(i));
  std::set<int> kept;
  int first = -1;
  while (const std::unique_ptr<int> object = pool.Take()) {
    if (first < 0) first = *object;
    kept.insert(*object);
  }
  EXPECT_EQ(kept, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(first, 7);
}

}  // namespace
}  // namespace weft::base
