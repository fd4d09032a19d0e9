// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "weft/scheduling_group/fiber/node_arena.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kBlockSize = 5;
using Stack = EntityStack<kBlockSize>;

// Pointers are only compared.
FiberEntity* Entity(std::size_t number) { return reinterpret_cast<FiberEntity*>((number + 1) << 6); }

TEST(EntityStack, GivesWhatWasPushedLastInTheOrderInWhichItWas) {
  Stack stack;
  Stack::Block blocks[3];
  for (Stack::Block& block : blocks) stack.AddBlock(&block);
  std::vector<FiberEntity*> all;
  for (std::size_t i = 0; i < 15; ++i) all.push_back(Entity(i));
  stack.Push(all.data(), 15);
  FiberEntity* popped[8];
  ASSERT_EQ(stack.Pop(popped, 8), 8u);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(popped[i], Entity(7 + i));
  ASSERT_EQ(stack.Pop(popped, 8), 7u);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(popped[i], Entity(i));
  EXPECT_EQ(stack.Pop(popped, 8), 0u);
}

TEST(EntityStack, DoesAsAVectorDoesWhileBlocksAreAdded) {
  std::mt19937 random(1);
  Stack stack;
  std::vector<std::unique_ptr<Stack::Block>> blocks;
  std::vector<FiberEntity*> model;
  std::vector<FiberEntity*> ours;  // free, not in the stack
  for (int step = 0; step < 100'000; ++step) {
    const std::size_t n = random() % 12;
    switch (random() % 64 == 0 && blocks.size() < 20 ? 2 : random() % 2) {
      case 0: {
        const std::size_t count = std::min(n, ours.size());
        stack.Push(ours.data() + (ours.size() - count), count);
        model.insert(model.end(), ours.end() - static_cast<std::ptrdiff_t>(count), ours.end());
        ours.resize(ours.size() - count);
        break;
      }
      case 1: {
        FiberEntity* popped[12];
        const std::size_t count = stack.Pop(popped, n);
        ASSERT_EQ(count, std::min(n, model.size()));
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(popped[i], model[model.size() - count + i]);
        model.resize(model.size() - count);
        ours.insert(ours.end(), popped, popped + count);
        break;
      }
      default:
        for (std::size_t i = 0; i < kBlockSize; ++i) ours.push_back(Entity(blocks.size() * kBlockSize + i));
        blocks.push_back(std::make_unique<Stack::Block>());
        stack.AddBlock(blocks.back().get());
    }
    ASSERT_EQ(stack.size(), model.size());
  }
}

}  // namespace
}  // namespace weft::scheduling_group
