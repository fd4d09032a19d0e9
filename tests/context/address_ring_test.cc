// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>

#include "weft/context/stack/stack_pool.h"

namespace weft::context {
namespace {

void* Number(std::uintptr_t number) { return reinterpret_cast<void*>(number * 64); }

TEST(AddressRing, GivesTheNewestOrTheOldest) {
  AddressRing ring(8);
  EXPECT_EQ(ring.capacity(), 8u);
  for (std::uintptr_t i = 1; i <= 4; ++i) ring.PushNewest(Number(i));
  EXPECT_EQ(ring.PopNewest(), Number(4));
  EXPECT_EQ(ring.PopOldest(), Number(1));
  EXPECT_EQ(ring.PopOldest(), Number(2));
  EXPECT_EQ(ring.PopNewest(), Number(3));
  EXPECT_EQ(ring.size(), 0u);
}

TEST(AddressRing, HoldsAsManyAsItsCapacityWhereverItStarts) {
  AddressRing ring(5);  // Rounded up to 8.
  ring.PushNewest(Number(99));
  for (std::uintptr_t i = 0; i < 20; ++i) {
    ring.PushNewest(Number(i));
    ring.PopOldest();
  }
  for (std::uintptr_t i = 0; i < 7; ++i) ring.PushNewest(Number(100 + i));
  EXPECT_EQ(ring.size(), 8u);
  EXPECT_EQ(ring.PopOldest(), Number(19));
  for (std::uintptr_t i = 0; i < 7; ++i) EXPECT_EQ(ring.PopOldest(), Number(100 + i));
}

TEST(AddressRing, KeepsItsOrderWhenCompacted) {
  AddressRing ring(1 << 16);
  std::deque<void*> expected;
  std::uintptr_t next = 1;
  for (int round = 0; round < 5; ++round) {
    while (ring.size() < 60000) {
      ring.PushNewest(Number(next));
      expected.push_back(Number(next++));
    }
    while (ring.size() > 1000) {
      ASSERT_EQ(ring.PopOldest(), expected.front());
      expected.pop_front();
    }
    ring.Compact();
    ASSERT_EQ(ring.size(), expected.size());
  }
  while (ring.size() > 0) {
    ASSERT_EQ(ring.PopNewest(), expected.back());
    expected.pop_back();
  }
}

}  // namespace
}  // namespace weft::context
