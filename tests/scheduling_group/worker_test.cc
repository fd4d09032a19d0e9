// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a worker goes from fiber to fiber. In a group of one, where the order is known.

#include "weft/scheduling_group/worker/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <vector>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/time_slice.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using weft::testing::Countdown;
using weft::testing::WorkerGroup;

class WorkerTest : public ::testing::Test {
 protected:
  const WorkerCounters& counters() { return group_.group().counters(0); }

  template <class F>
  void Run(F&& f) {
    Countdown done(1);
    ASSERT_TRUE(group_.Start([&] {
      f();
      done.Done();
    }));
    ASSERT_TRUE(done.Wait());
    group_.Drain();
  }

  WorkerGroup group_{1};
};

TEST_F(WorkerTest, AFiberThatEndsLeavesItsStackToTheNextWithoutASwitch) {
  constexpr int kFibers = 10;
  std::vector<std::uint64_t> switches;
  std::vector<const void*> frames;
  Run([&] {
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(group_.Start([&] {
        switches.push_back(counters().switches);
        frames.push_back(__builtin_frame_address(0));
      }));
    }
  });
  EXPECT_EQ(switches, std::vector<std::uint64_t>(kFibers, switches.at(0)));
  EXPECT_EQ(frames, std::vector<const void*>(kFibers, frames.at(0)));
}

TEST_F(WorkerTest, AStackOfAnotherSizeIsNotTakenOver) {
  std::vector<std::uint64_t> switches;
  Run([&] {
    for (const std::size_t stack_size : {0, 1 << 16, 0}) {
      ASSERT_TRUE(group_.Start([&] { switches.push_back(counters().switches); }, {.stack_size = stack_size}));
    }
  });
  ASSERT_EQ(switches.size(), 3u);
  EXPECT_EQ(switches[1], switches[0] + 1) << "it asked for a stack of its own";
  EXPECT_EQ(switches[2], switches[1] + 1) << "the stack before it is too small";
}

TEST_F(WorkerTest, AFiberThatWaitsIsLeftForTheNextInOneSwitch) {
  FiberEntity* first = nullptr;
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  Run([&] {
    ASSERT_TRUE(group_.Start([&] {
      after = counters().switches;
      Unpark(first);
    }));
    first = CurrentFiber();
    PrepareToPark(first);
    before = counters().switches;
    ParkPrepared(first);
  });
  EXPECT_EQ(after, before + 1) << "not by way of the loop";
}

TEST_F(WorkerTest, AFlagThatWasRaisedForAnEarlierFiberEndsNoSlice) {
  bool other_ran = false;
  Run([&] {
    ASSERT_TRUE(group_.Start([&] { other_ran = true; }));
    TimeSliceFlag()->store(true);
    YieldIfSliceIsOver();
    EXPECT_FALSE(other_ran);
    EXPECT_FALSE(TimeSliceIsOver()) << "the flag is lowered";
  });
}

TEST_F(WorkerTest, AThreadThatIsNoWorkerHasNoSlice) {
  YieldAfterSlice();
  EXPECT_EQ(CurrentWorker(), nullptr);
}

TEST_F(WorkerTest, WhatAnExitHookStartsRunsAfterIt) {
  struct World : FiberOwner {
    WorkerGroup* group;
    std::atomic<bool> hook_is_over{false};
    std::atomic<bool> ran_after{false};
    Countdown done{1};
  } world;
  world.group = &group_;
  world.on_exit = [](FiberOwner* owner) {
    auto* w = static_cast<World*>(owner);
    EXPECT_TRUE(CurrentWorker()->must_not_switch);
    ASSERT_TRUE(w->group->Start([w] {
      w->ran_after = w->hook_is_over.load();
      EXPECT_FALSE(CurrentWorker()->must_not_switch);
      w->done.Done();
    }));
    w->hook_is_over = true;
  };
  ASSERT_TRUE(group_.Start([] {}, {.owner = &world}));
  ASSERT_TRUE(world.done.Wait());
  EXPECT_TRUE(world.ran_after);
}

struct CountedExit : FiberOwner {
  CountedExit() : FiberOwner{.on_exit = [](FiberOwner* self) { ++static_cast<CountedExit*>(self)->told; }} {}
  int told = 0;
};

// As of a scope's child.
TEST_F(WorkerTest, AnExitOwnerIsToldOfTheEndOfItsFiberAlone) {
  CountedExit exit;
  FiberEntity* entities[2] = {};
  Run([&] {
    for (FiberEntity*& entity : entities) {
      ASSERT_TRUE(group_.Start([&] {
        entity = CurrentFiber();
        if (&entity == entities) entity->set_exit_owner(&exit);
      }));
      YieldCurrentFiber();
    }
  });
  EXPECT_EQ(entities[1], entities[0]) << "the test needs the same one";
  EXPECT_EQ(exit.told, 1);
}

// EP1. As FiberFactory.TheNextFiberInTheSameEntityHasNoneOfTheOptions, of one that has run.
TEST_F(WorkerTest, TheNextFiberInTheSameEntityHasNothingOfTheLastOne) {
  CountedExit exit;
  const FiberEntity* former = nullptr;
  Run([&] {
    ASSERT_TRUE(group_.Start(
        [&] {
          former = CurrentFiber();
          EXPECT_STREQ(former->name(), "former");
        },
        {.name = "former", .stack_size = 65536, .guard_size = 8192, .owner = &exit}));
    YieldCurrentFiber();
    ASSERT_TRUE(group_.Start([&] {
      const FiberEntity* const self = CurrentFiber();
      EXPECT_EQ(self, former) << "the test needs the same one";
      EXPECT_STREQ(self->name(), "");
      EXPECT_EQ(self->stack_size(), 0U);
      EXPECT_EQ(self->guard_size(), 0U);
      EXPECT_EQ(self->owner(), nullptr);
    }));
    YieldCurrentFiber();
  });
  EXPECT_EQ(exit.told, 1);
}

}  // namespace
}  // namespace weft::scheduling_group
