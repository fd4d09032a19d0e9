// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait/wait_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "testing/patience.h"

namespace weft::synchronization {
namespace {

// As a canceller, which knows only the word.
WaitNode* ClaimFrom(WaitNode::DecisionWord* word, WaitResult how) {
  for (void* found = word->load(); found != nullptr;) {
    void* const node = found;
    if (WaitNode::ClaimFound(word, &found, how)) return static_cast<WaitNode*>(node);
  }
  return nullptr;
}

TEST(WaitNode, IsClaimedByTheFirstWhoTries) {
  WaitNode::DecisionWord word{nullptr};
  WaitNode node;
  node.Begin(&word);
  EXPECT_FALSE(node.decided());
  EXPECT_TRUE(node.Claim(WaitResult::kTimedOut));
  EXPECT_TRUE(node.decided());
  EXPECT_FALSE(node.Claim(WaitResult::kNotified));
  EXPECT_EQ(ClaimFrom(&word, WaitResult::kInterrupted), nullptr);
  EXPECT_EQ(node.result(), WaitResult::kTimedOut);
}

TEST(WaitNode, CanBeClaimedThroughItsWordAlone) {
  WaitNode::DecisionWord word{nullptr};
  EXPECT_EQ(ClaimFrom(&word, WaitResult::kInterrupted), nullptr);
  WaitNode node;
  node.Begin(&word);
  EXPECT_EQ(ClaimFrom(&word, WaitResult::kInterrupted), &node);
  EXPECT_EQ(node.result(), WaitResult::kInterrupted);
  EXPECT_FALSE(node.Claim(WaitResult::kNotified));
}

TEST(WaitNode, CanWaitAgain) {
  WaitNode::DecisionWord word{nullptr};
  WaitNode node;
  for (int round = 0; round < 3; ++round) {
    node.Begin(&word);
    EXPECT_TRUE(node.Claim(WaitResult::kTimedOut));
  }
  node.Begin(&word);
  EXPECT_TRUE(node.Claim(WaitResult::kNotified));
  EXPECT_EQ(node.result(), WaitResult::kNotified);
}

TEST(WaitList, KeepsTheOrderAndPutsInFront) {
  WaitList list;
  WaitNode a, b, c;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.PopFront(), nullptr);
  list.PushBack(&a);
  EXPECT_TRUE(list.IsSingle());
  list.PushBack(&b);
  EXPECT_FALSE(list.IsSingle());
  list.PushFront(&c);
  EXPECT_EQ(list.front(), &c);
  EXPECT_EQ(list.PopFront(), &c);
  EXPECT_EQ(list.PopFront(), &a);
  EXPECT_EQ(list.PopFront(), &b);
  EXPECT_TRUE(list.empty_hint());
}

TEST(WaitList, GivesUpNodesFromAnywhere) {
  for (int which = 0; which < 3; ++which) {
    WaitList list;
    WaitNode nodes[3];
    for (WaitNode& node : nodes) list.PushBack(&node);
    list.Remove(&nodes[which]);
    EXPECT_FALSE(nodes[which].linked());
    for (int i = 0; i < 3; ++i) {
      if (i == which) continue;
      EXPECT_EQ(list.PopFront(), &nodes[i]);
    }
    EXPECT_TRUE(list.empty());
  }
}

TEST(WaitList, PassesOverWaitsThatOthersHaveEnded) {
  WaitList list;
  WaitNode::DecisionWord words[4] = {};
  WaitNode nodes[4];
  for (int i = 0; i < 4; ++i) {
    nodes[i].Begin(&words[i]);
    list.PushBack(&nodes[i]);
  }
  ASSERT_TRUE(nodes[0].Claim(WaitResult::kTimedOut));
  ASSERT_TRUE(nodes[1].Claim(WaitResult::kInterrupted));
  std::uint32_t passed_over = 0;
  EXPECT_EQ(list.ClaimFirst(&passed_over), &nodes[2]);
  EXPECT_EQ(passed_over, 2u);
  EXPECT_FALSE(nodes[0].linked());
  ASSERT_TRUE(nodes[3].Claim(WaitResult::kTimedOut));
  EXPECT_EQ(list.ClaimFirst(&passed_over), nullptr);
  EXPECT_EQ(passed_over, 3u);
}

TEST(WaitList, NeedsNoClaimForWaitsThatOnlyANotifierEnds) {
  WaitList list;
  WaitNode node;
  node.Begin(nullptr);
  EXPECT_FALSE(node.decided());
  list.PushBack(&node);
  std::uint32_t passed_over = 0;
  EXPECT_EQ(list.ClaimFirst(&passed_over), &node);
  EXPECT_EQ(node.result(), WaitResult::kNotified);
}

TEST(WaitList, TakesAWaitThatWasHandedOnWithoutASecondClaim) {
  WaitNode::DecisionWord word{nullptr};
  WaitNode node;
  node.Begin(&word);
  WaitList first;
  first.PushBack(&node);
  std::uint32_t passed_over = 0;
  ASSERT_EQ(first.ClaimFirst(&passed_over), &node);
  node.HandOn();
  WaitList second;
  second.PushBack(&node);
  EXPECT_FALSE(node.Claim(WaitResult::kTimedOut)) << "its timer is late";
  EXPECT_EQ(second.ClaimFirst(&passed_over), &node);
  EXPECT_EQ(passed_over, 0u);
  EXPECT_EQ(node.result(), WaitResult::kNotified);
  EXPECT_TRUE(node.handed_on());
}

TEST(WaitNode, IsClaimedByExactlyOneOfManyThreads) {
  const int rounds = testing::Scaled(20'000);
  constexpr int kClaimers = 3;
  WaitNode::DecisionWord word{nullptr};
  WaitNode node;
  std::atomic<int> round{0};
  std::atomic<int> winners{0};
  std::atomic<int> finished{0};
  std::vector<std::thread> claimers;
  for (int i = 0; i < kClaimers; ++i) {
    claimers.emplace_back([&, i] {
      for (int r = 1; r <= rounds; ++r) {
        while (round.load(std::memory_order_acquire) != r) std::this_thread::yield();
        const bool won = i == 0 ? ClaimFrom(&word, WaitResult::kInterrupted) != nullptr
                                : node.Claim(i == 1 ? WaitResult::kNotified : WaitResult::kTimedOut);
        if (won) winners.fetch_add(1);
        finished.fetch_add(1);
      }
    });
  }
  int bad = 0;
  for (int r = 1; r <= rounds; ++r) {
    node.Begin(&word);
    winners = 0;
    finished = 0;
    round.store(r, std::memory_order_release);
    while (finished.load() != kClaimers) std::this_thread::yield();
    bad += winners.load() != 1;
  }
  for (std::thread& claimer : claimers) claimer.join();
  EXPECT_EQ(bad, 0);
}

}  // namespace
}  // namespace weft::synchronization
