// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/queue/global_queue.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <vector>

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

class GlobalQueueTest : public PolicyFixture {
 protected:
  static constexpr unsigned kWorkers = 2;

  // What one worker takes at once.
  std::vector<FiberEntity*> Take(GlobalQueue& queue, std::uint32_t at_most) {
    std::vector<FiberEntity*> fibers(at_most);
    fibers.resize(queue.PopShare(fibers.data(), at_most, &times_));
    return fibers;
  }

 private:
  std::uint32_t times_ = 0;
};

TEST_F(GlobalQueueTest, WokenFibersComeBeforeOthersAndOthersFillUp) {
  GlobalQueue queue(64, kWorkers, -1);
  const auto normal = NewFibers(8);
  const auto woken = NewFibers(2);
  queue.Push(normal.data(), normal.size());
  queue.PushWoken(woken.data(), woken.size());
  EXPECT_EQ(queue.Size(), 10u);
  // Of the woken a half and one more, so all; of the others at most what is left.
  EXPECT_EQ(Take(queue, 4), (std::vector{woken[0], woken[1], normal[0], normal[1]}));
  EXPECT_EQ(Take(queue, 16), (std::vector(normal.begin() + 2, normal.begin() + 6))) << "the fair share of six";
}

std::ptrdiff_t PagesInMemory(std::span<const std::byte> piece) {
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(piece.data()) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(piece.data() + piece.size());
  std::vector<unsigned char> resident((end - begin + kPage - 1) / kPage);
  EXPECT_EQ(::mincore(reinterpret_cast<void*>(begin), end - begin, resident.data()), 0);
  return std::count_if(resident.begin(), resident.end(), [](unsigned char page) { return (page & 1) != 0; });
}

// Where the kernel gives huge pages to everybody, the first touch takes 512 pages.
void WithoutHugePages(std::span<const std::byte> piece) {
  constexpr std::uintptr_t kPage = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(piece.data()) / kPage * kPage;
  const auto end = reinterpret_cast<std::uintptr_t>(piece.data() + piece.size());
  // Fails with EINVAL where the kernel has none.
  static_cast<void>(::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_NOHUGEPAGE));
}

// Two megabytes a level were written when a runtime began: half of its CPU time, and of a small program's memory.
TEST_F(GlobalQueueTest, TakesMemoryAsItIsUsed) {
  GlobalQueue queue(131'072, kWorkers, -1);
  for (const std::span<const std::byte> level : queue.slots()) {
    WithoutHugePages(level);
    EXPECT_LE(PagesInMemory(level), 1);
  }
  const auto fibers = NewFibers(16);
  for (FiberEntity* fiber : fibers) queue.PushWoken(&fiber, 1);
  EXPECT_EQ(Take(queue, 16).size(), 9u);
  for (const std::span<const std::byte> level : queue.slots()) EXPECT_LE(PagesInMemory(level), 2);
}

TEST_F(GlobalQueueTest, NeitherLevelStarvesThoughBothAreNeverEmpty) {
  GlobalQueue queue(256, kWorkers, -1);
  const auto normal = NewFibers(100);
  const auto woken = NewFibers(100);
  queue.Push(normal.data(), normal.size());
  queue.PushWoken(woken.data(), woken.size());
  constexpr int kRounds = 20;
  std::vector<FiberEntity*> taken;
  for (int i = 0; i < kRounds * 4; ++i) {
    for (FiberEntity* fiber : Take(queue, 1)) taken.push_back(fiber);
  }
  // Three woken ones, then one of the normal ones; each level in its order.
  ASSERT_EQ(taken.size(), kRounds * 4u);
  for (int i = 0; i < kRounds; ++i) {
    for (int j = 0; j < 3; ++j) EXPECT_EQ(taken[4 * i + j], woken[3 * i + j]);
    EXPECT_EQ(taken[4 * i + 3], normal[i]);
  }
}

TEST_F(GlobalQueueTest, AGroupOfOneWorkerHasOneLevel) {
  GlobalQueue queue(4, /*sharers=*/1, -1);
  const auto fibers = NewFibers(20);  // Beyond the ring.
  for (std::size_t i = 0; i < fibers.size(); ++i) {
    i % 3 == 0 ? queue.PushWoken(fibers[i]) : queue.Push(fibers[i]);
  }
  for (FiberEntity* fiber : fibers) EXPECT_EQ(queue.PopAlone(), fiber);
  EXPECT_FALSE(queue.HasWork());
}

// New fibers are refused when too many of them wait. Woken ones exist already: their number refuses no start.
TEST_F(GlobalQueueTest, WokenFibersBeyondTheRingAreKeptInOrderAndMakeTheQueueNotFull) {
  GlobalQueue queue(4, kWorkers, -1);
  const auto woken = NewFibers(30);
  for (FiberEntity* fiber : woken) queue.PushWoken(fiber);
  EXPECT_EQ(queue.overflow_count(), 26u);
  EXPECT_FALSE(queue.Full());
  EXPECT_TRUE(queue.HalfEmpty());
  EXPECT_TRUE(queue.TryPush(New()));
  std::vector<FiberEntity*> taken;
  while (queue.HasWork()) {
    for (FiberEntity* fiber : Take(queue, 3)) {
      if (std::find(woken.begin(), woken.end(), fiber) != woken.end()) taken.push_back(fiber);
    }
  }
  EXPECT_EQ(taken, woken);
}

// There was room in the ring again, while others waited beyond it.
TEST_F(GlobalQueueTest, NoFiberOvertakesThoseBeyondTheRing) {
  GlobalQueue queue(4, kWorkers, -1);
  std::vector<FiberEntity*> normal = NewFibers(10);
  std::vector<FiberEntity*> woken = NewFibers(10);
  queue.Push(normal.data(), normal.size());
  queue.PushWoken(woken.data(), woken.size());
  std::vector<FiberEntity*> taken = Take(queue, 6);  // Of each level three, which makes room.
  ASSERT_EQ(taken.size(), 6u);
  EXPECT_FALSE(queue.TryPush(New())) << "ten minus three are there, and the ring has four";
  for (std::vector<FiberEntity*>* level : {&normal, &woken}) {
    level->push_back(New());
    level->push_back(New());
  }
  queue.Push(normal[10]);
  queue.Push(normal.data() + 11, 1);
  queue.PushWoken(woken[10]);
  queue.PushWoken(woken.data() + 11, 1);
  while (queue.HasWork()) {
    for (FiberEntity* fiber : Take(queue, 3)) taken.push_back(fiber);
  }
  for (const std::vector<FiberEntity*>& level : {normal, woken}) {
    std::vector<FiberEntity*> of_level;
    std::copy_if(taken.begin(), taken.end(), std::back_inserter(of_level),
                 [&](FiberEntity* fiber) { return std::find(level.begin(), level.end(), fiber) != level.end(); });
    EXPECT_EQ(of_level, level);
  }
}

TEST_F(GlobalQueueTest, LocalFibersOfEitherLevelHideNoneFromThievesAndStayInTheirLevel) {
  GlobalQueue queue(64, kWorkers, -1);
  const std::vector<FiberEntity*> local = {New(true), New(true), New(true)};
  FiberEntity* other = New();
  FiberEntity* woken = New();
  queue.Push(local[0]);
  queue.Push(other);
  queue.PushWoken(local[1]);
  queue.PushWoken(local[2]);
  queue.PushWoken(woken);
  bool must_notify = false;
  EXPECT_EQ(queue.Steal(&must_notify), other);
  EXPECT_TRUE(must_notify);
  EXPECT_EQ(queue.Steal(&must_notify), woken);
  EXPECT_EQ(queue.Steal(&must_notify), nullptr);
  EXPECT_EQ(queue.Size(), local.size());
  EXPECT_EQ(Take(queue, 3), (std::vector{local[1], local[2], local[0]}));
}

}  // namespace
}  // namespace weft::scheduling_group
