// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/load_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace weft::io {
namespace {

std::vector<std::string> Names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.push_back("10.0.0." + std::to_string(i) + ":80");
  return names;
}

std::string KeyOf(int i) { return "user-" + std::to_string(i); }

TEST(LoadBalancer, RoundRobinTakesTurnsAmongTheUsable) {
  LoadBalancer balancer(BalancePolicy::kRoundRobin, Names(3));
  std::vector<std::size_t> picks;
  for (int i = 0; i < 6; ++i) picks.push_back(balancer.Pick()->index());
  EXPECT_EQ(picks, (std::vector<std::size_t>{0, 1, 2, 0, 1, 2}));
  balancer.SetUsable(1, false);
  for (int i = 0; i < 6; ++i) EXPECT_NE(balancer.Pick()->index(), 1U);
  balancer.SetUsable(0, false);
  balancer.SetUsable(2, false);
  EXPECT_FALSE(balancer.Pick().has_value());
  balancer.SetUsable(1, true);
  EXPECT_EQ(balancer.Pick()->index(), 1U);
}

TEST(LoadBalancer, TheLeastLoadedHasTheFewestCallsUnderWay) {
  LoadBalancer balancer(BalancePolicy::kLeastLoaded, Names(3));
  std::vector<LoadBalancer::Picked> slow;
  for (int i = 0; i < 6; ++i) slow.push_back(*balancer.Pick());
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(balancer.Calls(i), 2U);
  const std::size_t freed = slow.back().index();
  slow.pop_back();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(balancer.Pick()->index(), freed);
  balancer.SetUsable(freed, false);
  EXPECT_NE(balancer.Pick()->index(), freed);
  for (std::size_t i = 0; i < 3; ++i) balancer.SetUsable(i, false);
  EXPECT_FALSE(balancer.Pick().has_value());
  slow.clear();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(balancer.Calls(i), 0U);
}

TEST(LoadBalancer, AKeyStaysAtItsServer) {
  constexpr int kKeys = 3000;
  LoadBalancer balancer(BalancePolicy::kConsistentHash, Names(5));
  std::vector<std::size_t> owners;
  std::vector<int> shares(5);
  for (int i = 0; i < kKeys; ++i) {
    owners.push_back(balancer.Pick(KeyOf(i))->index());
    ++shares[owners.back()];
    EXPECT_EQ(balancer.Pick(KeyOf(i))->index(), owners.back());
  }
  for (const int share : shares) {
    EXPECT_GT(share, kKeys / 5 * 6 / 10);
    EXPECT_LT(share, kKeys / 5 * 14 / 10);
  }
  // One goes: its keys move, to all others, and no other key does.
  balancer.SetUsable(2, false);
  std::vector<int> heirs(5);
  for (int i = 0; i < kKeys; ++i) {
    const std::size_t owner = balancer.Pick(KeyOf(i))->index();
    if (owners[i] == 2) {
      ++heirs[owner];
    } else {
      EXPECT_EQ(owner, owners[i]);
    }
  }
  EXPECT_EQ(heirs[2], 0);
  for (const std::size_t heir : {0, 1, 3, 4}) EXPECT_GT(heirs[heir], 0);
  // Other clients, which name the servers in another order and know one more, agree but for its share.
  std::vector<std::string> names = Names(6);
  std::reverse(names.begin(), names.end());
  LoadBalancer other(BalancePolicy::kConsistentHash, names);
  for (int i = 0; i < kKeys; ++i) {
    const std::size_t owner = 5 - other.Pick(KeyOf(i))->index();
    EXPECT_TRUE(owner == owners[i] || owner == 5) << KeyOf(i);
  }
}

TEST(LoadBalancer, ACallThatIsMadeAgainGoesElsewhere) {
  for (const auto policy : {BalancePolicy::kRoundRobin, BalancePolicy::kLeastLoaded, BalancePolicy::kConsistentHash}) {
    LoadBalancer balancer(policy, Names(4));
    balancer.SetUsable(3, false);
    for (int i = 0; i < 20; ++i) {
      std::vector<std::size_t> tried;
      while (const auto pick = balancer.PickOther(tried, KeyOf(i))) {
        ASSERT_LT(tried.size(), 3U);
        EXPECT_EQ(std::count(tried.begin(), tried.end(), pick->index()), 0);
        tried.push_back(pick->index());
      }
      std::sort(tried.begin(), tried.end());
      EXPECT_EQ(tried, (std::vector<std::size_t>{0, 1, 2}));
    }
  }
}

TEST(LoadBalancer, ThreadsCountTheirCallsExactly) {
  for (const auto policy : {BalancePolicy::kRoundRobin, BalancePolicy::kLeastLoaded, BalancePolicy::kConsistentHash}) {
    LoadBalancer balancer(policy, Names(3));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 1000; ++i) {
          if (t == 0) balancer.SetUsable(1, i % 2 == 0);
          const auto pick = balancer.Pick(KeyOf(i));
          EXPECT_GE(balancer.Calls(pick->index()), 1U);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(balancer.Calls(i), 0U);
  }
}

}  // namespace
}  // namespace weft::io
