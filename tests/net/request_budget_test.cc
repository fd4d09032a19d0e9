// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <limits>
#include <optional>
#include <thread>
#include <vector>

#include "weft/net/budgets.h"

namespace weft::io {
namespace {

TEST(RequestBudget, RequestsAboveTheLimitAreRefusedAndCounted) {
  RequestBudget budget({.requests = 2});
  std::optional<RequestBudget::Share> first(&budget);
  RequestBudget::Share second(&budget), third(&budget);
  EXPECT_TRUE(first->Begin());
  EXPECT_TRUE(second.Begin());
  EXPECT_FALSE(third.Begin());
  third.Clear();  // It has nothing to give back.
  EXPECT_FALSE(third.Begin());
  EXPECT_EQ(budget.counts().requests, 2u);
  EXPECT_EQ(budget.counts().over_requests, 2u);
  first.reset();
  EXPECT_TRUE(third.Begin());
  second.Clear();
  third.Clear();
  EXPECT_EQ(budget.counts().requests, 0u);
  EXPECT_EQ(budget.counts().over_bytes, 0u);
}

TEST(RequestBudget, BytesAboveTheLimitAreRefusedAndTheShareKeepsItsOwn) {
  RequestBudget budget({.bytes = 100});
  {
    RequestBudget::Share large(&budget), small(&budget);
    EXPECT_TRUE(large.Take(60));
    EXPECT_FALSE(small.Take(41));
    EXPECT_TRUE(small.Take(40));
    EXPECT_FALSE(large.Take(1));
    EXPECT_EQ(budget.counts().bytes, 100u);
    EXPECT_EQ(budget.counts().over_bytes, 2u);
    large.Clear();
    EXPECT_EQ(budget.counts().bytes, 40u);
    EXPECT_TRUE(small.Take(60));
  }
  EXPECT_EQ(budget.counts().bytes, 0u);
  RequestBudget::Share share(&budget);
  EXPECT_FALSE(share.Take(101));
  EXPECT_TRUE(share.Take(1));
  EXPECT_FALSE(share.Take(std::numeric_limits<std::size_t>::max()));  // The sum would be 0.
  EXPECT_EQ(budget.counts().bytes, 1u);
}

TEST(RequestBudget, WithoutLimitsNothingIsRefusedOrCounted) {
  RequestBudget budget({});
  RequestBudget::Share share(&budget);
  EXPECT_TRUE(share.Begin());
  EXPECT_TRUE(share.Take(std::numeric_limits<std::size_t>::max()));
  EXPECT_EQ(budget.counts().requests, 0u);
  EXPECT_EQ(budget.counts().bytes, 0u);
}

TEST(RequestBudget, TwoThreadsNeverHaveMoreThanTheLimitAtATime) {
  RequestBudget budget({.requests = 1, .bytes = 10});
  std::atomic<int> in_work{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 3'000'000; ++n) {
        RequestBudget::Share share(&budget);
        if (!share.Begin()) continue;
        static_cast<void>(share.Take(10));  // Relaxed: the bytes of one that has ended may still count.
        if (in_work.fetch_add(1) != 0) ADD_FAILURE() << "two at a time";
        in_work.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.counts().requests, 0u);
  EXPECT_EQ(budget.counts().bytes, 0u);
}

TEST(RetryBudget, LeavesAShareOfTheRequestsAndTheReserve) {
  RetryBudget budget({.share = 0.1, .reserve = 5});
  int retries = 0;
  while (budget.Withdraw()) ++retries;
  EXPECT_EQ(retries, 5);
  for (int request = 0; request < 100; ++request) {
    budget.Deposit();
    retries += budget.Withdraw();
  }
  EXPECT_EQ(retries, 15);
  for (int request = 0; request < 1000; ++request) budget.Deposit();
  for (retries = 0; budget.Withdraw();) ++retries;
  EXPECT_EQ(retries, 5);
}

TEST(RetryBudget, LeavesAShareAlsoWithoutAReserve) {
  for (const double reserve : {0.0, 0.05, 0.999, -1.0}) {
    RetryBudget budget({.share = 0.1, .reserve = reserve});
    EXPECT_FALSE(budget.Withdraw());
    int retries = 0;
    for (int request = 0; request < 1000; ++request) {
      budget.Deposit();
      retries += budget.Withdraw();
    }
    EXPECT_GE(retries, 99) << reserve;
    EXPECT_LE(retries, 100) << reserve;
  }
  RetryBudget none({.share = 0, .reserve = 0});
  none.Deposit();
  EXPECT_FALSE(none.Withdraw());
}

TEST(RetryBudget, WhatIsGivenBackIsThereAgain) {
  RetryBudget budget({.share = 0.1, .reserve = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(budget.Withdraw());
    EXPECT_FALSE(budget.Withdraw());
    budget.GiveBack();
  }
}

TEST(RetryBudget, HasNoBoundsThatANumberMayPass) {
  RetryBudget budget({.share = 1e300, .reserve = std::numeric_limits<double>::infinity()});
  for (int request = 0; request < 100; ++request) budget.Deposit();
  EXPECT_TRUE(budget.Withdraw());
}

}  // namespace
}  // namespace weft::io
