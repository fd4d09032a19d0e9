// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/cancel/child_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/spin_lock.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/sync/cancel/cancel_node.h"

namespace weft::synchronization {
namespace {

using scheduling_group::FiberEntity;
using Slot = ChildTable::Slot;

#if !WEFT_ASAN && !WEFT_TSAN
bool without_memory = false;
#endif

// Fibers that have been made in a scope, and are never started.
class Child {
 public:
  explicit Child(CancelNode* scope) : fiber_(scheduling_group::NewFiber(nullptr, {.scope = scope}, [] {})) {
    if (fiber_ == nullptr) std::abort();
  }
  Child(Child&& other) noexcept : fiber_(std::exchange(other.fiber_, nullptr)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(fiber_, other.fiber_);
    return *this;
  }
  ~Child() {
    if (fiber_ != nullptr) scheduling_group::DiscardFiber(fiber_);
  }
  FiberEntity* fiber() const { return fiber_; }
  // It leaves its scopes, and its entity becomes another fiber's.
  void End(ChildTable* table, bool was_the_last = false) {
    scheduling_group::DiscardFiber(std::exchange(fiber_, nullptr));
    EXPECT_EQ(table->End(), was_the_last);
  }

 private:
  FiberEntity* fiber_;
};

std::set<FiberEntity*> FoundIn(ChildTable* table) {
  std::set<FiberEntity*> found;
  const base::SpinLockGuard guard(table->lock);
  table->Rewind();
  while (FiberEntity* const fiber = table->Next()) EXPECT_TRUE(found.insert(fiber).second) << "found twice";
  return found;
}

class ChildTableTest : public ::testing::TestWithParam<bool> {
 protected:
  Slot* Take() { return GetParam() ? table.TakeByOwner() : table.Take(); }
  Child Spawn() {
    Child child(&scope);
    Slot* const slot = Take();
    EXPECT_NE(slot, taken) << "it is given to two";
    slots.insert(slot);
    ChildTable::Fill(slot, child.fiber());
    return child;
  }

  CancelNode scope;
  ChildTable table;
  std::set<Slot*> slots;  // all that were ever taken
  Slot* taken = nullptr;  // not filled, in a test
};
INSTANTIATE_TEST_SUITE_P(By, ChildTableTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Owner" : "AnySpawner"; });

TEST_P(ChildTableTest, AWalkFindsEachChildThatIsThereOnce) {
  constexpr std::size_t kMost = 3000;  // In several chunks.
  std::vector<Child> children;
  for (std::size_t i = 0; i < kMost; ++i) children.push_back(Spawn());
  EXPECT_EQ(slots.size(), kMost) << "a slot was given twice";
  EXPECT_EQ(table.live(), kMost);
  EXPECT_EQ(FoundIn(&table).size(), kMost);
  for (std::size_t i = 0; i < kMost; i += 2) children[i].End(&table);
  const std::set<FiberEntity*> odd = FoundIn(&table);
  EXPECT_EQ(odd.size(), kMost / 2);
  for (std::size_t i = 1; i < kMost; i += 2) EXPECT_EQ(odd.count(children[i].fiber()), 1U);
  EXPECT_EQ(table.live(), kMost / 2);
  EXPECT_EQ(table.taken(), kMost);
  for (std::size_t i = 1; i < kMost; i += 2) children[i].End(&table);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_TRUE(FoundIn(&table).empty());
}

TEST_P(ChildTableTest, ASlotDoesNotNameTheNextFiberOfItsEntity) {
  const Child staying = Spawn();
  CancelNode other;
  for (CancelNode* const its_scope : {&scope, &other}) {
    Child first = Spawn();
    const FiberEntity* const entity = first.fiber();
    first.End(&table);
    const Child next(its_scope);
    ASSERT_EQ(next.fiber(), entity) << "the pool gives the last one first";
    EXPECT_EQ(FoundIn(&table), std::set{staying.fiber()});
  }
  EXPECT_FALSE(table.End());
}

TEST_P(ChildTableTest, SlotsAreUsedAgainWhenNoChildIsLeft) {
  for (int i = 0; i < 10'000; ++i) Spawn().End(&table);
  EXPECT_LE(slots.size(), 8U) << "the table grows though one child lives at a time";
  EXPECT_EQ(table.taken(), 10'000U);
  EXPECT_EQ(table.live(), 0U);
}

TEST_P(ChildTableTest, SlotsAreUsedAgainWhileOthersLive) {
  std::vector<Child> staying;
  for (int i = 0; i < 100; ++i) staying.push_back(Spawn());
  for (int i = 0; i < 10'000; ++i) {
    Child two[] = {Spawn(), Spawn()};
    for (Child& child : two) child.End(&table);
  }
  EXPECT_LE(slots.size(), 256U) << "the table grows though 102 children live at a time";
  EXPECT_EQ(table.live(), 100U);
  EXPECT_EQ(FoundIn(&table).size(), 100U);
  for (Child& child : staying) child.End(&table);
}

// A large table: most of its children stay, wherever they are.
TEST_P(ChildTableTest, ASweepFindsTheFewThatHaveEnded) {
  constexpr std::size_t kMost = 2048;
  std::vector<Child> children;
  while (children.size() < kMost) children.push_back(Spawn());
  for (std::size_t i = 0; i < kMost / 4; ++i) children[kMost - 1 - i].End(&table);
  for (std::size_t i = 0; i < kMost / 4; ++i) children[kMost - 1 - i] = Spawn();
  EXPECT_EQ(slots.size(), kMost) << "it has grown";
  EXPECT_EQ(FoundIn(&table).size(), kMost);
  children.push_back(Spawn());
  EXPECT_EQ(slots.size(), kMost + 1) << "a slot was given twice";
  for (Child& child : children) child.End(&table);
}

// One that named a child of a former round.
TEST_P(ChildTableTest, ASweepLeavesASlotThatIsNotFilledYet) {
  std::vector<Child> children;
  for (int i = 0; i < 256; ++i) children.push_back(Spawn());
  for (Child& child : children) child.End(&table);
  EXPECT_FALSE(table.BeginWait());
  taken = Take();
  for (int i = 0; i < 255; ++i) children[i] = Spawn();
  for (int i = 100; i < 255; ++i) children[i].End(&table);
  for (int i = 100; i < 255; ++i) children[i] = Spawn();
  EXPECT_EQ(slots.size(), 256U) << "it has grown";
  table.GiveBack(taken);
  EXPECT_FALSE(table.End());
  for (int i = 0; i < 255; ++i) children[i].End(&table);
}

TEST_P(ChildTableTest, ASlotThatIsGivenBackIsUsedAgain) {
  std::vector<Child> staying;
  for (int i = 0; i < 3; ++i) staying.push_back(Spawn());
  for (int i = 0; i < 1000; ++i) {
    Slot* const slot = Take();
    slots.insert(slot);
    table.GiveBack(slot);
    EXPECT_FALSE(table.End());
  }
  EXPECT_LE(slots.size(), 16U);
  EXPECT_EQ(table.live(), 3U);
  EXPECT_EQ(FoundIn(&table).size(), 3U);
  for (Child& child : staying) child.End(&table);
}

// After a burst a cancellation visits those that have ended once.
TEST_P(ChildTableTest, AWalkFreesTheSlotsOfThoseThatHaveEnded) {
  std::vector<Child> children;
  for (int i = 0; i < 200; ++i) children.push_back(Spawn());
  for (int i = 0; i < 199; ++i) children[i].End(&table);
  EXPECT_EQ(FoundIn(&table), std::set{children.back().fiber()});
  for (int i = 0; i < 199; ++i) children[i] = Spawn();
  EXPECT_LE(slots.size(), 208U) << "what the walk has freed was not used";
  EXPECT_EQ(FoundIn(&table).size(), 200U);
  for (Child& child : children) child.End(&table);
  EXPECT_TRUE(FoundIn(&table).empty());
}

#if !WEFT_ASAN && !WEFT_TSAN
TEST_P(ChildTableTest, WithoutMemoryTheSlotsOfThoseThatHaveEndedAreTaken) {
  std::vector<Child> children;
  for (int i = 0; i < 8; ++i) children.push_back(Spawn());
  without_memory = true;
  EXPECT_EQ(Take(), nullptr) << "all of them live";
  for (int i = 1; i < 8; ++i) {
    children[i].End(&table);
    children[i] = Spawn();
  }
  EXPECT_EQ(Take(), nullptr);
  without_memory = false;
  EXPECT_EQ(FoundIn(&table).size(), 8U);
  EXPECT_EQ(table.live(), 8U) << "a refused child is counted";
  for (Child& child : children) child.End(&table);
}
#endif

TEST_P(ChildTableTest, TheLastOneThatIsWaitedForSaysSo) {
  EXPECT_FALSE(table.BeginWait());
  for (int round = 0; round < 3; ++round) {
    Child early = Spawn();
    Child first = Spawn();
    Child second = Spawn();
    early.End(&table);
    ASSERT_TRUE(table.BeginWait());
    EXPECT_EQ(table.live(), 2U);
    second.End(&table);
    EXPECT_EQ(table.live(), 1U);
    first.End(&table, /*was_the_last=*/true);
    table.EndWait();
    EXPECT_EQ(table.live(), 0U);
    EXPECT_FALSE(table.BeginWait());
  }
  EXPECT_EQ(table.taken(), 9U);
}

TEST_P(ChildTableTest, AChildMaySpawnWhileTheOwnerWaits) {
  Child last = Spawn();
  ASSERT_TRUE(table.BeginWait());
  for (int i = 0; i < 1000; ++i) {
    Child next(&scope);
    ChildTable::Fill(table.Take(), next.fiber());
    EXPECT_EQ(table.live(), 2U);
    last.End(&table);
    last = std::move(next);
  }
  last.End(&table, /*was_the_last=*/true);
  table.EndWait();
  EXPECT_EQ(table.live(), 0U);
  EXPECT_EQ(table.taken(), 1001U);
}

// Threads stand for children: each spawns some more and ends. One of all says that it is the last. Meanwhile walks find
// the children that stay.
TEST(ChildTableStress, ChildrenSpawnAndEndOnSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 2000;
  constexpr int kStaying = 300;  // So that others are found by sweeps.
  for (int round = 0; round < 10; ++round) {
    CancelNode scope;
    auto table = std::make_unique<ChildTable>();
    std::vector<Child> staying;
    for (int i = 0; i < kThreads + kStaying; ++i) {
      staying.emplace_back(&scope);
      ChildTable::Fill(table->TakeByOwner(), staying.back().fiber());
    }
    std::atomic<int> running{kThreads};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < kEach; ++i) {
          Child two[] = {Child(&scope), Child(&scope)};
          for (const Child& child : two) ChildTable::Fill(table->Take(), child.fiber());
          for (Child& child : two) child.End(table.get());
        }
        --running;
        if (t != 0) staying[t].End(table.get());
      });
    }
    while (running != 0) {
      const std::set<FiberEntity*> found = FoundIn(table.get());
      for (int i = 0; i < kStaying; ++i) ASSERT_EQ(found.count(staying[kThreads + i].fiber()), 1U);
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_TRUE(table->BeginWait());
    for (int i = 0; i < kStaying; ++i) staying[kThreads + i].End(table.get());
    staying[0].End(table.get(), /*was_the_last=*/true);
    table->EndWait();
    EXPECT_EQ(table->live(), 0U);
    EXPECT_EQ(table->taken(), std::size_t{kThreads} * (2 * kEach + 1) + kStaying);
    EXPECT_TRUE(FoundIn(table.get()).empty());
  }
}

}  // namespace
}  // namespace weft::synchronization

#if !WEFT_ASAN && !WEFT_TSAN  // They have their own.
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return weft::synchronization::without_memory ? nullptr : ::operator new[](size);
}
#endif
