// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/park.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "weft/context/switch/sanitizer.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using weft::testing::Countdown;
using weft::testing::WorkerGroup;

// Runs `f` in a fiber of a group of one worker and waits for its end.
template <class F>
void RunAlone(F&& f) {
  WorkerGroup group(1);
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    f(group);
    done.Done();
  }));
  ASSERT_TRUE(done.Wait());
}

std::uint64_t Switches(WorkerGroup& group) { return group.group().counters(0).switches.load(); }

TEST(Park, AnUnparkThatComesFirstLetsTheFiberGoOnWithoutASwitch) {
  RunAlone([](WorkerGroup& group) {
    for (int i = 0; i < 3; ++i) {
      const std::uint64_t before = Switches(group);
      PrepareToPark(CurrentFiber());
      Unpark(CurrentFiber());
      ParkPrepared(CurrentFiber());
      EXPECT_EQ(Switches(group), before);
    }
  });
}

TEST(Park, AYieldReturnsAtOnceIfNobodyIsReady) {
  RunAlone([](WorkerGroup& group) {
    const std::uint64_t before = Switches(group);
    YieldCurrentFiber();
    EXPECT_EQ(Switches(group), before);
    bool ran = false;
    ASSERT_TRUE(group.Start([&] { ran = true; }));
    YieldCurrentFiber();
    EXPECT_TRUE(ran);
  });
}

// What dumps read while it is parked. ThreadSanitizer does not know the fence below.
struct WordsOfPark {
  WaitReason reason;
  ReadyStamp stamp;
};
WEFT_NO_SANITIZE WordsOfPark ReadWords(FiberEntity* fiber) {
  WordsOfPark words;
  words.reason = WaitReason::FromWord(reinterpret_cast<std::uintptr_t>(fiber->next));
  words.stamp = fiber->ready_stamp;
  return words;
}

TEST(Park, AParkedFiberHasItsReasonAndAStampThatDiffersFromParkToPark) {
  WorkerGroup group(1);
  std::atomic<FiberEntity*> parked{nullptr};
  const int object = 0;
  constexpr int kParks = 100;
  ASSERT_TRUE(group.Start([&] {
    for (int i = 0; i < kParks; ++i) {
      FiberEntity* const self = CurrentFiber();
      PrepareToPark(self, WaitReason(WaitKind::kLatch, &object));
      parked.store(self, std::memory_order_release);
      ParkPrepared(self);
    }
  }));
  std::uint64_t last = 0;
  for (int i = 0; i < kParks; ++i) {
    FiberEntity* fiber;
    while ((fiber = parked.exchange(nullptr, std::memory_order_acquire)) == nullptr) std::this_thread::yield();
    while (fiber->state().Load() != FiberPhase::kParked) std::this_thread::yield();
    // acquire: what the worker wrote before it parked the fiber.
    std::atomic_thread_fence(std::memory_order_acquire);
    const WordsOfPark words = ReadWords(fiber);
    EXPECT_EQ(words.reason.kind(), WaitKind::kLatch);
    EXPECT_EQ(words.reason.object(), reinterpret_cast<std::uintptr_t>(&object));
    EXPECT_FALSE(words.stamp) << "no push was sampled";
    EXPECT_NE(words.stamp.word(), last);
    last = words.stamp.word();
    Unpark(fiber);
  }
}

struct Published {
  FiberEntity* self = nullptr;
  std::atomic<FiberEntity*> known{nullptr};
  std::atomic<FiberEntity*> running{nullptr};  // when it was made known
  bool accept = true;
};

bool Publish(void* argument) noexcept {
  auto* published = static_cast<Published*>(argument);
  published->running = CurrentFiber();
  if (!published->accept) return false;
  published->known.store(published->self, std::memory_order_release);
  return true;
}

class ParkTest : public ::testing::TestWithParam<unsigned> {};

INSTANTIATE_TEST_SUITE_P(Workers, ParkTest, ::testing::Values(1u, 2u, 4u));

TEST_P(ParkTest, AFiberIsMadeKnownWhenItHasLeftItsStack) {
  WorkerGroup group(GetParam());
  constexpr int kRounds = 1'000;
  Published published;
  Countdown done(1);
  std::atomic<int> woken{0};
  ASSERT_TRUE(group.Start([&] {
    published.self = CurrentFiber();
    for (int i = 0; i < kRounds; ++i) {
      ParkAndPublish(published.self, &Publish, &published);
      EXPECT_NE(published.running.load(), published.self);
      ++woken;
    }
    done.Done();
  }));
  for (int i = 0; i < kRounds; ++i) {
    FiberEntity* fiber;
    while ((fiber = published.known.exchange(nullptr, std::memory_order_acquire)) == nullptr) {
      std::this_thread::yield();
    }
    EXPECT_EQ(woken, i);
    UnparkPublished(fiber);
  }
  EXPECT_TRUE(done.Wait());
}

TEST_P(ParkTest, AFiberThatIsNotMadeKnownGoesOn) {
  WorkerGroup group(GetParam());
  Published published;
  published.accept = false;
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    published.self = CurrentFiber();
    for (int i = 0; i < 1'000; ++i) ParkAndPublish(published.self, &Publish, &published);
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
  EXPECT_EQ(published.known.load(), nullptr);
}

// By turns, so that each batch is one fiber; then in rows of more than one pass takes.
TEST_P(ParkTest, ABatchOfFibersOfTwoGroupsIsWokenWhole) {
  constexpr std::size_t kFibers = 150;
  for (const bool by_turns : {true, false}) {
    WorkerGroup groups[2] = {WorkerGroup(GetParam()), WorkerGroup(GetParam())};
    std::vector<std::atomic<FiberEntity*>> parked(2 * kFibers);
    std::vector<std::atomic<int>> runs(2 * kFibers);
    Countdown all_parked(2 * kFibers);
    Countdown done(2 * kFibers);
    for (std::size_t i = 0; i < 2 * kFibers; ++i) {
      WorkerGroup& group = groups[by_turns ? i % 2 : i / kFibers];
      ASSERT_TRUE(group.Start([&, i] {
        FiberEntity* self = CurrentFiber();
        PrepareToPark(self);
        parked[i] = self;
        all_parked.Done();
        ParkPrepared(self);
        if (CurrentWorker()->group == &group.group()) ++runs[i];
        done.Done();
      }));
    }
    ASSERT_TRUE(all_parked.Wait());
    const std::vector<FiberEntity*> fibers(parked.begin(), parked.end());
    UnparkRemote(fibers.data(), fibers.size());
    ASSERT_TRUE(done.Wait());
    for (const auto& n : runs) EXPECT_EQ(n.load(), 1) << "by workers of its own group";
  }
}

}  // namespace
}  // namespace weft::scheduling_group
