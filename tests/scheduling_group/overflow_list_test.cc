// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/run_queue.h"

namespace weft::scheduling_group {
namespace {

class OverflowListTest : public ::testing::Test {
 protected:
  // Puts the next `count` fibers behind all others; how many went into the list.
  std::size_t Push(std::size_t count) {
    FiberEntity* batch[kFibers];
    for (std::size_t i = 0; i < count; ++i) batch[i] = &fibers_[pushed_++];
    return list_.PushBehind(queue_, batch, count);
  }
  // The number of the fiber at the head of the queue; -1: it is empty.
  int Pop() {
    const FiberEntity* fiber = queue_.TryPop();
    return fiber != nullptr ? static_cast<int>(fiber - fibers_.data()) : -1;
  }

  static constexpr std::size_t kFibers = 16;

  std::array<FiberEntity, kFibers> fibers_;
  std::size_t pushed_ = 0;
  RunQueue queue_{4};
  OverflowList list_;
};

TEST_F(OverflowListTest, WhatTheQueueHasNoRoomForGoesIntoTheList) {
  EXPECT_TRUE(list_.Empty());
  EXPECT_EQ(Push(3), 0u);
  EXPECT_TRUE(list_.Empty());
  EXPECT_EQ(Push(3), 2u);
  EXPECT_EQ(list_.Size(), 2u);
  EXPECT_FALSE(list_.Empty());
}

// Else they would overtake those in the list.
TEST_F(OverflowListTest, WhileTheListIsNotEmptyAllGoThereThoughTheQueueHasRoom) {
  EXPECT_EQ(Push(5), 1u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Pop(), i);
  EXPECT_EQ(Push(2), 2u);
  EXPECT_EQ(list_.Size(), 3u);
  EXPECT_EQ(Pop(), -1);
  list_.Refill(queue_);
  for (int i = 4; i < 7; ++i) EXPECT_EQ(Pop(), i);
}

TEST_F(OverflowListTest, ARefillMovesAsManyAsThereIsRoomForInOrder) {
  EXPECT_EQ(Push(10), 6u);
  list_.Refill(queue_);
  EXPECT_EQ(list_.Size(), 6u) << "there is no room";
  EXPECT_EQ(Pop(), 0);
  EXPECT_EQ(Pop(), 1);
  list_.Refill(queue_);
  EXPECT_EQ(list_.Size(), 4u);
  for (int expected = 2; expected < 10; ++expected) {
    EXPECT_EQ(Pop(), expected);
    list_.Refill(queue_);
  }
  EXPECT_EQ(Pop(), -1);
}

TEST_F(OverflowListTest, ItIsEmptiedIntoTheQueueWhenBothAreEmpty) {
  EXPECT_TRUE(list_.EmptiedInto(queue_));
  EXPECT_EQ(Push(5), 1u);
  EXPECT_FALSE(list_.EmptiedInto(queue_));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Pop(), i);
  EXPECT_FALSE(list_.EmptiedInto(queue_)) << "one is in the list";
  list_.Refill(queue_);
  EXPECT_FALSE(list_.EmptiedInto(queue_)) << "it is in the queue";
  EXPECT_EQ(Pop(), 4);
  EXPECT_TRUE(list_.EmptiedInto(queue_));
}

TEST_F(OverflowListTest, AnEmptyListCanBeUsedAgain) {
  for (int round = 0; round < 3; ++round) {
    pushed_ = 0;
    EXPECT_EQ(Push(6), 2u);
    for (int expected = 0; expected < 6; ++expected) {
      EXPECT_EQ(Pop(), expected);
      list_.Refill(queue_);
    }
    EXPECT_TRUE(list_.Empty());
  }
}

// Producers and consumers as GlobalQueue has them: each fiber comes out once, those of a producer in their order.
TEST(OverflowList, UnderContentionEachFiberComesOutOnceAndInOrder) {
  constexpr std::size_t kProducers = 3;
  constexpr std::size_t kEach = WEFT_TSAN || WEFT_ASAN ? 5'000 : 50'000;
  const auto fibers = std::make_unique<FiberEntity[]>(kProducers * kEach);
  RunQueue queue(8);
  OverflowList list;
  std::vector<std::thread> producers;
  for (std::size_t p = 0; p < kProducers; ++p) {
    producers.emplace_back([&, p] {
      for (std::size_t i = 0; i < kEach; ++i) {
        FiberEntity* fiber = &fibers[p * kEach + i];
        if (list.Empty() && queue.TryPush(fiber)) continue;
        (void)list.PushBehind(queue, &fiber, 1);
      }
    });
  }
  std::array<std::size_t, kProducers> next{};
  bool in_order = true;
  for (std::size_t popped = 0; popped < kProducers * kEach;) {
    if (!list.Empty()) list.Refill(queue);
    const FiberEntity* fiber = queue.TryPop();
    if (fiber == nullptr) {
      std::this_thread::yield();
      continue;
    }
    const auto number = static_cast<std::size_t>(fiber - fibers.get());
    in_order = in_order && number % kEach == next[number / kEach]++;
    ++popped;
  }
  for (std::thread& producer : producers) producer.join();
  EXPECT_TRUE(in_order);
  EXPECT_TRUE(list.EmptiedInto(queue));
}

}  // namespace
}  // namespace weft::scheduling_group
