// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/apportion.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace weft::scheduling_group::planning {
namespace {

using Shares = std::vector<unsigned>;

TEST(Apportion, WhatFitsInProportionIsSharedInProportion) { EXPECT_EQ(Apportion(6, {4, 8}), (Shares{2, 4})); }

TEST(Apportion, TheRemainderGoesToTheLargestFractions) {
  EXPECT_EQ(Apportion(5, {8, 4}), (Shares{3, 2}));  // 3 1/3 and 1 2/3
}

TEST(Apportion, OfEqualFractionsTheFirstGetsMore) { EXPECT_EQ(Apportion(4, {3, 3, 3}), (Shares{2, 1, 1})); }

TEST(Apportion, NoMoreIsGivenThanThereIsCapacity) {
  EXPECT_EQ(Apportion(100, {3, 0, 4}), (Shares{3, 0, 4}));
  EXPECT_EQ(Apportion(1, {0, 0}), (Shares{0, 0}));
}

TEST(Apportion, NothingIsLostAndNobodyGetsMoreThanItsCapacity) {
  const Shares capacities = {1, 7, 0, 64, 13};
  for (unsigned total = 0; total <= 85; ++total) {
    const Shares shares = Apportion(total, capacities);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), 0u), total);
    for (std::size_t i = 0; i < shares.size(); ++i) EXPECT_LE(shares[i], capacities[i]) << total;
  }
}

}  // namespace
}  // namespace weft::scheduling_group::planning
