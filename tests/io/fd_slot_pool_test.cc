// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/fd_slot_pool.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <semaphore>
#include <set>
#include <thread>
#include <vector>

#include "weft/io/reactor/fd_slot.h"

namespace weft::io {
namespace {

// Homes of no node of this machine: each test has its own.
using Home = FdSlotPool::Home;

std::vector<FdSlot*> TakeMany(Home home, std::size_t count) {
  std::vector<FdSlot*> slots;
  for (std::size_t i = 0; i < count; ++i) slots.push_back(FdSlotPool::TakeOf(home));
  return slots;
}

void PutAll(const std::vector<FdSlot*>& slots) {
  for (FdSlot* slot : slots) FdSlotPool::Put(slot);
}

// FP3: as a thread that accepts connections, serves them and closes them.
TEST(FdSlotPool, AThreadThatTakesAndPutsByTurnsVisitsNoStore) {
  constexpr Home kHome = 40;
  std::thread([] {
    PutAll(TakeMany(kHome, 60));
    const std::uint64_t before = FdSlotPool::Visits(kHome);
    for (const std::size_t open : {1U, 2U, 17U, 32U, 60U, 1U}) {
      for (int i = 0; i < 100; ++i) PutAll(TakeMany(kHome, open));
    }
    EXPECT_EQ(FdSlotPool::Visits(kHome), before);
  }).join();
}

// FP3: one accepts, the other one closes.
TEST(FdSlotPool, ThreadsExchangeBatches) {
  constexpr Home kHome = 41;
  constexpr std::size_t kRounds = 100;
  const std::uint64_t before = FdSlotPool::Visits(kHome);
  std::binary_semaphore full(0);
  std::binary_semaphore empty(1);
  std::vector<FdSlot*> slots;
  std::thread closes([&] {
    for (std::size_t i = 0; i < kRounds; ++i) {
      full.acquire();
      PutAll(slots);
      empty.release();
    }
  });
  for (std::size_t i = 0; i < kRounds; ++i) {
    empty.acquire();
    slots = TakeMany(kHome, FdSlotPool::kBatch);
    full.release();
  }
  closes.join();
  // Two for each batch; some at the beginning and at the end of a thread.
  EXPECT_LE(FdSlotPool::Visits(kHome) - before, 2 * kRounds + 8);
  EXPECT_GE(FdSlotPool::Visits(kHome) - before, kRounds);
}

// FP2
TEST(FdSlotPool, ASlotGoesHomeWhoeverPutsItBack) {
  constexpr Home kHomes[] = {42, 43};
  std::set<FdSlot*> of_home[2];
  for (int round = 0; round < 20; ++round) {
    std::vector<FdSlot*> taken[2];
    for (int i = 0; i < 2; ++i) {
      std::thread([&] { taken[i] = TakeMany(kHomes[i], 100); }).join();
      for (FdSlot* slot : taken[i]) {
        ASSERT_EQ(FdSlotPool::HomeOf(*slot), kHomes[i]);
        ASSERT_EQ(of_home[1 - i].count(slot), 0U);
        of_home[i].insert(slot);
      }
    }
    // Each by a thread that takes of the other home.
    for (int i = 0; i < 2; ++i) {
      std::thread([&] {
        const std::vector<FdSlot*> own = TakeMany(kHomes[1 - i], 1);
        PutAll(taken[i]);
        PutAll(own);
      }).join();
    }
  }
  // Whole chunks of 64.
  for (const auto& slots : of_home) EXPECT_LE(slots.size(), 192U);
}

TEST(FdSlotPool, AChunkIsUsedUpBeforeTheNextOneIsMapped) {
  const std::vector<FdSlot*> slots = TakeMany(47, 4 * FdSlotPool::kBatch);
  std::set<FdSlot*> sorted(slots.begin(), slots.end());
  std::size_t chunks = 0;
  const FdSlot* before = nullptr;
  for (const FdSlot* slot : sorted) {
    if (before == nullptr || before + 1 != slot) ++chunks;
    before = slot;
  }
  EXPECT_LE(chunks, 2U);  // of two batches each
  PutAll(slots);
}

// FP1
TEST(FdSlotPool, AThreadThatEndsGivesItsSlotsBack) {
  constexpr Home kHome = 44;
  std::set<FdSlot*> first;
  std::set<FdSlot*> second;
  for (std::set<FdSlot*>* const slots : {&first, &second}) {
    std::thread([&] {
      const std::vector<FdSlot*> taken = TakeMany(kHome, 64);
      slots->insert(taken.begin(), taken.end());
      PutAll(taken);
    }).join();
  }
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(second, first);
}

// FP1
TEST(FdSlotPool, NobodyHasAnothersSlot) {
  constexpr Home kHomes[] = {45, 46};
  std::mutex mutex;
  std::set<FdSlot*> taken;
  std::vector<FdSlot*> shared;  // put back by whoever comes
  const auto run = [&](unsigned seed) {
    std::minstd_rand random(seed);
    for (int i = 0; i < 2'000; ++i) {
      const std::vector<FdSlot*> slots = TakeMany(kHomes[random() % 2], random() % 50);
      std::vector<FdSlot*> mine;
      {
        const std::lock_guard guard(mutex);
        for (FdSlot* slot : slots) ASSERT_TRUE(taken.insert(slot).second) << "two have a slot";
        shared.insert(shared.end(), slots.begin(), slots.end());
        for (std::size_t n = random() % 100; n != 0 && !shared.empty(); --n) {
          mine.push_back(shared.back());
          shared.pop_back();
          taken.erase(mine.back());
        }
      }
      PutAll(mine);
    }
  };
  {
    std::vector<std::thread> threads;
    for (unsigned t = 1; t <= 4; ++t) threads.emplace_back(run, t);
    for (std::thread& thread : threads) thread.join();
  }
  PutAll(shared);
}

}  // namespace
}  // namespace weft::io
