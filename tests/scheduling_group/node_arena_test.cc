// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/node_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace weft::scheduling_group {
namespace {

std::vector<FiberEntity*> Take(NodeArena& arena, std::size_t n) {
  std::vector<FiberEntity*> entities(n);
  entities.resize(arena.Take(entities.data(), n));
  return entities;
}

// All of the arena's, batch by batch; it makes no chunk for them.
std::vector<FiberEntity*> TakeAllFree(NodeArena& arena) {
  std::vector<FiberEntity*> entities(arena.TakeSnapshot().free);
  EXPECT_EQ(arena.Take(entities.data(), entities.size()), entities.size());
  return entities;
}

constexpr std::size_t kChunks = 5;

// All entities of so many chunks.
std::vector<FiberEntity*> TakeChunks(NodeArena& arena, std::size_t chunks) {
  std::vector<FiberEntity*> entities(chunks * kEntitiesPerChunk);
  for (std::size_t taken = 0; taken < entities.size();) {
    const std::size_t n = arena.Take(&entities[taken], std::min<std::size_t>(64, entities.size() - taken));
    if (n == 0) {
      ADD_FAILURE() << "no memory";
      break;
    }
    taken += n;
  }
  return entities;
}

TEST(NodeArena, TheFirstTakeMakesAChunk) {
  NodeArena arena;
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 0u);
  const std::vector<FiberEntity*> entities = Take(arena, 64);
  ASSERT_EQ(entities.size(), 64u);
  EXPECT_EQ(std::set<FiberEntity*>(entities.begin(), entities.end()).size(), 64u);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 1u);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk - 64);
}

TEST(NodeArena, TheMostRecentlyReturnedEntityIsTakenFirst) {
  NodeArena arena;
  const std::vector<FiberEntity*> entities = Take(arena, 64);
  arena.GiveBack(entities.data(), entities.size());
  EXPECT_EQ(Take(arena, 1).at(0), entities.back());
}

TEST(NodeArena, AnEmptyArenaMakesAnotherChunk) {
  NodeArena arena;
  (void)Take(arena, 1);
  (void)TakeAllFree(arena);
  EXPECT_EQ(Take(arena, 1).size(), 1u);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 2u);
}

TEST(NodeArena, AColdChunkIsUsedBeforeANewOneIsMade) {
  NodeArena arena;
  (void)Take(arena, 1);
  (void)TakeAllFree(arena);
  EntityChunk* chunk = arena.TakeSnapshot().chunks;
  arena.AddColdChunk(chunk);  // All of its entities were in our hands.
  EXPECT_EQ(arena.TakeSnapshot().free, 0u);
  for (const FiberEntity* entity : Take(arena, 64)) {
    EXPECT_GE(entity, chunk->entities);
    EXPECT_LT(entity, chunk->entities + kEntitiesPerChunk);
  }
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 1u);
}

TEST(NodeArena, NothingIsTakenOfASnapshotWhenAChunkHasComeSince) {
  NodeArena arena;
  (void)Take(arena, 1);
  const NodeArena::Snapshot snapshot = arena.TakeSnapshot();
  FiberEntity* entity = nullptr;
  EXPECT_EQ(arena.TakeOfSnapshot(snapshot, &entity, 1), 1u);
  (void)TakeAllFree(arena);
  (void)Take(arena, 1);
  EXPECT_EQ(arena.TakeOfSnapshot(snapshot, &entity, 1), 0u);
}

// As EntityMagazine does.
class Packs {
 public:
  explicit Packs(NodeArena& arena) : arena_(arena) {}
  ~Packs() { arena_.GiveEmptyPack(pack_); }
  Packs(const Packs&) = delete;
  Packs& operator=(const Packs&) = delete;

  // 64 at most.
  std::vector<FiberEntity*> Fill() {
    std::size_t count = 0;
    pack_ = arena_.Fill(pack_, &count);
    return {pack_->entities, pack_->entities + count};
  }
  void Flush(const std::vector<FiberEntity*>& entities) {
    ASSERT_EQ(entities.size(), EntityPack::kSize);
    std::copy(entities.begin(), entities.end(), pack_->entities);
    pack_ = arena_.Flush(pack_);
  }
  const EntityPack* pack() const { return pack_; }

 private:
  NodeArena& arena_;
  EntityPack* pack_ = arena_.TakeEmptyPack();
};

TEST(NodeArena, AFullPackChangesHandsWhole) {
  static NodeArena arena;  // It keeps the packs of those who left.
  Packs gives(arena);
  Packs takes(arena);
  const std::vector<FiberEntity*> entities = gives.Fill();
  const EntityPack* const full = gives.pack();
  const std::size_t in_stack = arena.TakeSnapshot().free;
  gives.Flush(entities);
  EXPECT_EQ(arena.TakeSnapshot().free, in_stack) << "nothing was copied";
  EXPECT_NE(gives.pack(), full);
  const EntityPack* const empty = takes.pack();
  EXPECT_EQ(takes.Fill(), entities);
  EXPECT_EQ(takes.pack(), full);
  // And back.
  const EntityPack* const others = gives.pack();
  takes.Flush(entities);
  EXPECT_EQ(takes.pack(), empty);
  EXPECT_EQ(gives.Fill(), entities);
  EXPECT_EQ(gives.pack(), full);
  EXPECT_NE(others, full);
}

TEST(NodeArena, WithoutAnEmptyPackTheEntitiesGoIntoTheStack) {
  NodeArena arena;
  const std::vector<FiberEntity*> entities = Take(arena, EntityPack::kSize);
  std::vector<EntityPack*> empty;
  for (std::size_t i = 0; i <= kEntitiesPerChunk / EntityPack::kSize; ++i) empty.push_back(arena.TakeEmptyPack());
  EntityPack* const own = empty.back();
  std::copy(entities.begin(), entities.end(), own->entities);
  const std::size_t in_stack = arena.TakeSnapshot().free;
  EXPECT_EQ(arena.Flush(own), own);
  EXPECT_EQ(arena.TakeSnapshot().free, in_stack + EntityPack::kSize);
  std::size_t count = 0;
  EXPECT_EQ(arena.Fill(own, &count), own);
  EXPECT_EQ(std::vector<FiberEntity*>(own->entities, own->entities + count), entities);
}

TEST(NodeArena, ATrimPutsWhatIsInPacksIntoTheStack) {
  static NodeArena arena;  // It keeps the packs of those who left.
  Packs packs(arena);
  std::vector<std::vector<FiberEntity*>> taken;
  for (int i = 0; i < 10; ++i) taken.push_back(packs.Fill());
  for (const auto& entities : taken) packs.Flush(entities);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk - 10 * EntityPack::kSize);
  arena.DrainPacks();
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, 1u);
}

// NA1
TEST(NodeArena, ThreadsThatExchangePacksLoseNoneAndHaveNoneTwice) {
  static NodeArena arena;  // It keeps the packs of those who left.
  const auto run = [](unsigned seed) {
    std::mt19937 random(seed);
    Packs packs(arena);
    std::vector<std::vector<FiberEntity*>> taken;
    for (int i = 0; i < 2'000; ++i) {
      if (random() % 2 == 0) {
        taken.push_back(packs.Fill());
        for (FiberEntity* entity : taken.back()) {
          ASSERT_EQ(entity->next, nullptr) << "two have it";
          entity->next = entity;
        }
      } else if (!taken.empty()) {
        for (FiberEntity* entity : taken.back()) entity->next = nullptr;
        if (taken.back().size() == EntityPack::kSize) {
          packs.Flush(taken.back());
        } else {
          arena.GiveBack(taken.back().data(), taken.back().size());
        }
        taken.pop_back();
      }
      if (random() % 256 == 0) TrimArena(arena);
    }
    for (const auto& entities : taken) {
      for (FiberEntity* entity : entities) entity->next = nullptr;
      arena.GiveBack(entities.data(), entities.size());
    }
  };
  {
    std::vector<std::thread> threads;
    for (unsigned seed = 1; seed <= 4; ++seed) threads.emplace_back(run, seed);
    for (std::thread& thread : threads) thread.join();
  }
  arena.DrainPacks();
  std::vector<FiberEntity*> all = TakeChunks(arena, arena.TakeSnapshot().chunk_count);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(NodeArena, ANodeHasOneArena) {
  const NodeArenaIndex one = NodeArenaOn(1001);
  const NodeArenaIndex other = NodeArenaOn(1002);
  EXPECT_NE(one, other);
  EXPECT_EQ(NodeArenaOn(1001), one);
  EXPECT_EQ(NodeArenaAt(one).node(), 1001);
  EXPECT_EQ(NodeArenaOn(-1), kAnyNodeArena);
  EXPECT_EQ(NodeArenaAt(kAnyNodeArena).node(), -1);
}

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

TEST(EntityChunks, ANewChunkIsInTheTable) {
  const std::size_t before = EntityChunkCount();
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/-1);
  ASSERT_NE(chunk, nullptr);
  ASSERT_EQ(EntityChunkCount(), before + 1);
  EXPECT_EQ(EntityChunkAt(before), chunk->entities);
}

// EP1.
TEST(EntityChunks, ItsEntitiesAreFree) {
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/-1);
  ASSERT_NE(chunk, nullptr);
  for (std::size_t i = 0; i < kEntitiesPerChunk; ++i) {
    const FiberEntity& entity = chunk->entities[i];
    ASSERT_EQ(entity.state().Load(), FiberPhase::kDead);
    ASSERT_EQ(entity.id(), 0u);
    ASSERT_STREQ(entity.name(), "");
  }
}

// Better elsewhere than not at all; a line in the log says so.
TEST(EntityChunks, AChunkOfANodeThatIsNotThereLiesElsewhere) {
  const EntityChunk* chunk = MakeEntityChunk(/*node=*/1000);
  ASSERT_NE(chunk, nullptr);
  EXPECT_EQ(chunk->entities[0].id(), 0u);
}

TEST(EntityTrim, FewFreeEntitiesStayWarm) {
  NodeArena arena;
  const std::vector<FiberEntity*> entities = TakeChunks(arena, 1);
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk);
}

TEST(EntityTrim, OfWhollyFreeChunksOneStaysWarm) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(arena.TakeSnapshot().free, kEntitiesPerChunk);
  // The others are used again before a new chunk is made.
  std::vector<FiberEntity*> again = TakeChunks(arena, kChunks);
  EXPECT_EQ(arena.TakeSnapshot().chunk_count, kChunks);
  std::sort(entities.begin(), entities.end());
  std::sort(again.begin(), again.end());
  EXPECT_EQ(again, entities);
}

TEST(EntityTrim, WhatAnotherFiberUsesStaysAsItIs) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  FiberEntity* const used = entities[entities.size() / 2];
  int mark = 0;
  used->set_fiber_local_slots(&mark);
  std::erase(entities, used);
  for (FiberEntity* entity : entities) entity->next = entity;  // Written to, as by a fiber.
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  EXPECT_EQ(used->fiber_local_slots(), &mark);
  // Those beside it, and the chunk that stays warm.
  EXPECT_EQ(arena.TakeSnapshot().free, 2 * kEntitiesPerChunk - 1);
  used->set_fiber_local_slots(nullptr);
}

// EP1: their memory went back to the system.
TEST(EntityTrim, EntitiesOfAColdChunkReadAsNew) {
  NodeArena arena;
  std::vector<FiberEntity*> entities = TakeChunks(arena, kChunks);
  for (FiberEntity* entity : entities) entity->next = entity;
  arena.GiveBack(entities.data(), entities.size());
  TrimArena(arena);
  std::size_t as_new = 0;
  for (const FiberEntity* entity : entities) as_new += entity->next == nullptr ? 1 : 0;
  EXPECT_EQ(as_new, (kChunks - 1) * kEntitiesPerChunk);
}

}  // namespace
}  // namespace weft::scheduling_group
