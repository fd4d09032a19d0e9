// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/ref_ptr.h"

#include <gtest/gtest.h>

#include <thread>
#include <utility>
#include <vector>

namespace weft::base {
namespace {

struct Counted : RefCounted<Counted> {
  explicit Counted(int* destroyed) : destroyed(destroyed) {}
  ~Counted() { ++*destroyed; }
  int* destroyed;
  int value = 0;
};

TEST(RefPtr, DestroysWithTheLastReference) {
  int destroyed = 0;
  auto first = MakeRefCounted<Counted>(&destroyed);
  EXPECT_TRUE(first->HasOneRef());
  {
    RefPtr<Counted> second = first;
    EXPECT_EQ(second, first);
    EXPECT_FALSE(first->HasOneRef());
  }
  EXPECT_EQ(destroyed, 0);
  first.Reset();
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(first, nullptr);
}

TEST(RefPtr, MovingChangesNoCount) {
  int destroyed = 0;
  auto first = MakeRefCounted<Counted>(&destroyed);
  RefPtr<Counted> second = std::move(first);
  EXPECT_FALSE(first);  // NOLINT(bugprone-use-after-move): that is the point.
  EXPECT_TRUE(second->HasOneRef());
  first = std::move(second);
  EXPECT_TRUE(first->HasOneRef());
  EXPECT_EQ(destroyed, 0);
}

TEST(RefPtr, AssigningToItselfKeepsTheObject) {
  int destroyed = 0;
  auto pointer = MakeRefCounted<Counted>(&destroyed);
  RefPtr<Counted>& alias = pointer;
  pointer = alias;
  EXPECT_EQ(destroyed, 0);
  EXPECT_TRUE(pointer->HasOneRef());
}

TEST(RefPtr, LeakAndAdoptHandAReferenceThroughARawPointer) {
  int destroyed = 0;
  Counted* raw = MakeRefCounted<Counted>(&destroyed).Leak();
  EXPECT_EQ(destroyed, 0);
  {
    RefPtr<Counted> further(raw);
    EXPECT_FALSE(raw->HasOneRef());
  }
  RefPtr<Counted>::Adopt(raw).Reset();
  EXPECT_EQ(destroyed, 1);
}

TEST(RefPtr, TheDestructorSeesWhatAllOwnersDid) {
  constexpr int kThreads = 4;
  for (int round = 0; round < 200; ++round) {
    int destroyed = 0;
    auto pointer = MakeRefCounted<Counted>(&destroyed);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([mine = pointer]() mutable {
        for (int j = 0; j < 100; ++j) RefPtr<Counted> copy = mine;
        mine.Reset();
      });
    }
    pointer.Reset();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(destroyed, 1);
  }
}

}  // namespace
}  // namespace weft::base
