// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace weft::context {
namespace {

// Addresses are only compared, never touched.
StackRegion RegionAt(std::size_t number) {
  char* low = reinterpret_cast<char*>((number + 1) << 32);
  return {.low = low, .high = low + 10 * 0x5000, .stride = 0x5000, .guard_size = 0x1000};
}

TEST(StackRegistry, FindsTheSlotOfAnAddress) {
  const StackRegion region = RegionAt(0);
  ASSERT_TRUE(RegisterStackRegion(region));
  StackBounds bounds;
  ASSERT_TRUE(FindStack(region.low + 3 * 0x5000 + 0x2345, &bounds));
  EXPECT_EQ(bounds.guard_low, region.low + 3 * 0x5000);
  EXPECT_EQ(bounds.low, region.low + 3 * 0x5000 + 0x1000);
  EXPECT_EQ(bounds.high, region.low + 4 * 0x5000);
  EXPECT_TRUE(FindStack(region.low, &bounds));
  EXPECT_EQ(bounds.guard_low, region.low);
  EXPECT_TRUE(FindStack(region.high - 1, &bounds));
  EXPECT_EQ(bounds.high, region.high);
  EXPECT_FALSE(FindStack(region.low - 1, &bounds));
  EXPECT_FALSE(FindStack(region.high, &bounds));
  EXPECT_FALSE(FindStack(nullptr, &bounds));
  UnregisterStackRegion(region);
  EXPECT_FALSE(FindStack(region.low, &bounds));
}

TEST(StackRegistry, PlacesThatWereGivenUpAreUsedAgain) {
  for (int round = 0; round < 5000; ++round) {
    ASSERT_TRUE(RegisterStackRegion(RegionAt(7)));
    UnregisterStackRegion(RegionAt(7));
  }
}

// There was space for 1,024; the next pool that needed one was told that there is no memory.
TEST(StackRegistry, HasRoomForThousandsOfRegions) {
  constexpr std::size_t kRegions = 5000;
  for (std::size_t i = 0; i < kRegions; ++i) ASSERT_TRUE(RegisterStackRegion(RegionAt(i))) << i;
  StackBounds bounds;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1023}, std::size_t{1024}, kRegions - 1}) {
    EXPECT_TRUE(FindStack(RegionAt(i).low, &bounds)) << i;
    EXPECT_EQ(bounds.guard_low, RegionAt(i).low);
  }
  for (std::size_t i = 0; i < kRegions; ++i) UnregisterStackRegion(RegionAt(i));
  EXPECT_FALSE(FindStack(RegionAt(kRegions - 1).low, &bounds));
}

TEST(StackRegistry, IsReadWhileItChanges) {
  const StackRegion steady = RegionAt(100);
  ASSERT_TRUE(RegisterStackRegion(steady));
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    while (!stop) {
      static_cast<void>(RegisterStackRegion(RegionAt(101)));
      UnregisterStackRegion(RegionAt(101));
    }
  });
  StackBounds bounds;
  for (int i = 0; i < 20000; ++i) {
    ASSERT_TRUE(FindStack(steady.low + 0x5000, &bounds));
    ASSERT_EQ(bounds.guard_low, steady.low + 0x5000);
  }
  stop = true;
  writer.join();
  UnregisterStackRegion(steady);
}

}  // namespace
}  // namespace weft::context
