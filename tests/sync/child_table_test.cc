// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/child_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "weft/base/spin_lock.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::synchronization {
namespace {

using scheduling_group::FiberEntity;
using Slot = ChildTable::Slot;

void OnExit(scheduling_group::FiberOwner*) {}

std::set<FiberEntity*> FoundIn(ChildTable* table) {
  std::set<FiberEntity*> found;
  const base::SpinLockGuard guard(table->lock);
  table->Rewind();
  while (FiberEntity* const fiber = table->Next()) EXPECT_TRUE(found.insert(fiber).second) << "found twice";
  return found;
}

class ChildTableTest : public ::testing::TestWithParam<bool> {
 protected:
  Slot* Take(ChildTable* table) const {
    return GetParam() ? table->TakeByOwner(table, &OnExit) : table->Take(table, &OnExit);
  }
};
INSTANTIATE_TEST_SUITE_P(By, ChildTableTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Owner" : "AnySpawner"; });

TEST_P(ChildTableTest, AWalkFindsEachChildThatIsThereOnce) {
  constexpr std::size_t kMost = 3000;  // In several chunks.
  std::vector<FiberEntity> fibers(kMost);
  ChildTable table;
  std::vector<Slot*> slots;
  std::set<Slot*> different;
  for (FiberEntity& fiber : fibers) {
    slots.push_back(Take(&table));
    ASSERT_NE(slots.back(), nullptr);
    EXPECT_TRUE(different.insert(slots.back()).second) << "a slot was given twice";
    EXPECT_EQ(slots.back()->scope, &table);
    EXPECT_EQ(slots.back()->on_exit, &OnExit);
    ChildTable::Fill(slots.back(), &fiber);
  }
  EXPECT_EQ(table.live(), kMost);
  EXPECT_EQ(FoundIn(&table).size(), kMost);
  for (std::size_t i = 0; i < kMost; i += 2) EXPECT_FALSE(table.Free(slots[i]));
  const std::set<FiberEntity*> odd = FoundIn(&table);
  EXPECT_EQ(odd.size(), kMost / 2);
  for (std::size_t i = 0; i < kMost; ++i) EXPECT_EQ(odd.count(&fibers[i]), i % 2);
  EXPECT_EQ(table.live(), kMost / 2);
  EXPECT_EQ(table.taken(), kMost);
  for (std::size_t i = 1; i < kMost; i += 2) EXPECT_FALSE(table.Free(slots[i]));
  EXPECT_EQ(table.live(), 0U);
}

TEST_P(ChildTableTest, SlotsAreUsedAgain) {
  ChildTable table;
  std::set<Slot*> different;
  for (int i = 0; i < 10'000; ++i) {
    Slot* const slots[] = {Take(&table), Take(&table), Take(&table)};
    for (Slot* const slot : slots) {
      different.insert(slot);
      EXPECT_FALSE(table.Free(slot));
    }
  }
  EXPECT_LE(different.size(), 32U) << "the table grows though three children live at a time";
  EXPECT_EQ(table.taken(), 30'000U);
  EXPECT_EQ(table.live(), 0U);
}

TEST_P(ChildTableTest, TheLastOneThatIsWaitedForSaysSo) {
  ChildTable table;
  EXPECT_FALSE(table.BeginWait());
  for (int round = 0; round < 3; ++round) {
    Slot* const early = Take(&table);
    Slot* const first = Take(&table);
    Slot* const second = Take(&table);
    EXPECT_FALSE(table.Free(early));
    ASSERT_TRUE(table.BeginWait());
    EXPECT_EQ(table.live(), 2U);
    EXPECT_FALSE(table.Free(second));
    EXPECT_EQ(table.live(), 1U);
    EXPECT_TRUE(table.Free(first));
    table.EndWait();
    EXPECT_EQ(table.live(), 0U);
    EXPECT_FALSE(table.BeginWait());
  }
  EXPECT_EQ(table.taken(), 9U);
}

TEST_P(ChildTableTest, AChildMaySpawnWhileTheOwnerWaits) {
  ChildTable table;
  Slot* last = Take(&table);
  ASSERT_TRUE(table.BeginWait());
  for (int i = 0; i < 1000; ++i) {
    Slot* const next = table.Take(&table, &OnExit);
    EXPECT_EQ(table.live(), 2U);
    EXPECT_FALSE(table.Free(last));
    last = next;
  }
  EXPECT_TRUE(table.Free(last));
  table.EndWait();
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.taken(), 1001U);
}

// Threads stand for children: each spawns some more and ends. One of all says that it is the last.
TEST(ChildTableStress, ChildrenSpawnAndEndOnSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  for (int round = 0; round < 10; ++round) {
    auto table = std::make_unique<ChildTable>();
    std::vector<FiberEntity> fibers(kThreads);
    std::vector<Slot*> first;
    for (FiberEntity& fiber : fibers) {
      first.push_back(table->TakeByOwner(table.get(), &OnExit));
      ChildTable::Fill(first.back(), &fiber);
    }
    std::atomic<int> last{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          Slot* const slots[] = {table->Take(table.get(), &OnExit), table->Take(table.get(), &OnExit)};
          for (Slot* const slot : slots) {
            ChildTable::Fill(slot, &fibers[t]);
            EXPECT_FALSE(table->Free(slot));
          }
        }
        if (table->Free(first[t])) ++last;
      });
    }
    const bool waited = table->BeginWait();
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(last, waited ? 1 : 0);
    if (waited) table->EndWait();
    EXPECT_EQ(table->live(), 0U);
    EXPECT_EQ(table->taken(), std::size_t{kThreads} * (2 * kEach + 1));
    EXPECT_TRUE(FoundIn(table.get()).empty());
  }
}

}  // namespace
}  // namespace weft::synchronization
