// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/hand_off_slot.h and hand_off_watch.h through all interleavings: a worker that fills and empties its
// slot, and others that take from it, watch it, and stop watching it. Each fiber is taken once, with what its worker
// wrote to it; and none is forgotten when the watcher goes to sleep (with idle_workers.h). Which moments a watch begins
// and ends at is the model's choice, not the clock's.
#include <gtest/gtest.h>

#include <array>
#include <span>

#include "weft/scheduling_group/hand_off_slot.h"
#include "weft/scheduling_group/hand_off_watch.h"
#include "weft/scheduling_group/idle_workers.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {

// What the slot carries: here, all that a taker can check.
class FiberEntity {
 public:
  model::Data<int> number{-1};  // written by the slot's worker
  model::Data<int> taker{-1};   // written by the taker: two that take it race
};

namespace {

constexpr int kMaxFibers = 4;
constexpr int kMaxTakers = 3;
constexpr int kOwner = 0;

struct Desk {
  HandOffSlot slot;
};

struct World {
  // The workers whose the desks are. The owner's is the last one, but for where both are tried.
  unsigned owners = 1;
  unsigned watchers = 0;
  std::array<Desk, 2> desks;
  HandOffWatch watch;
  std::array<SpinMemory, kMaxTakers> memories;
  std::array<FiberEntity, kMaxFibers> fibers;
  std::array<std::array<int, kMaxFibers>, kMaxTakers> taken{};  // by taker and fiber: how often
  int filled = 0;                                               // the owner's

  HandOffSlot& slot() { return desks[owners].slot; }

  void Check(int taker, FiberEntity* fiber) {
    if (fiber == nullptr) return;
    fiber->taker.Write(taker);
    ++taken[taker][fiber->number.Read()];
  }

  // --- The slot's worker ---

  bool Fill() {
    FiberEntity* fiber = &fibers[filled];
    fiber->number.Write(filled);
    if (!slot().TryFillAndFence(fiber)) return false;
    ++filled;
    return true;
  }
  void Take() { Check(kOwner, slot().Take()); }
  void HandOver(int times) {
    for (int i = 0; i < times; ++i) {
      if (Fill()) Take();
    }
  }

  // --- The others ---

  void TryTake(int taker, int times) {
    for (int i = 0; i < times; ++i) Check(taker, watch.TryTake(&slot()));
  }
  bool Begin(int taker) { return watch.TryBegin(std::span<Desk>(desks), watchers, &memories[taker]); }
  void End(int taker) { watch.EndSpin(std::span<Desk>(desks), &memories[taker]); }

  // At the end: the slot may hold one fiber, which nobody else has and which may be taken.
  void CheckAll() {
    for (int taker = 0; taker < kMaxTakers; ++taker) End(taker);
    const bool full = slot().Full();
    FiberEntity* left = watch.TryTake(&slot());
    MODEL_CHECK((left != nullptr) == full, "nobody can take the fiber in the slot any more");
    for (int i = 0; i < kMaxFibers; ++i) {
      int times = left == &fibers[i] ? 1 : 0;
      for (const auto& by : taken) times += by[i];
      MODEL_CHECK(times == (i < filled ? 1 : 0), "a fiber is lost, or was taken twice");
    }
  }
};

template <class AWorld = World>
AWorld* NewWorld(model::Scenario& scenario) {
  auto* world = scenario.New<AWorld>("desks");
  scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
  scenario.AtEnd([=] { world->CheckAll(); });
  return world;
}

template <class Build>
void Explore(const model::Options& options, Build build) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(HandOffSlotModel, AThiefTakesFromAnOpenSlot) {
  Explore({.name = "hand_off_slot: open, 1 thief", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOver(3); });
            scenario.Thread("thief", [=] { world->TryTake(1, 2); });
          });
}

TEST(HandOffSlotModel, AWatchEndsAndTheWatcherTakes) {
  const auto build = [](model::Scenario& scenario, unsigned owners) {
    auto* world = NewWorld(scenario);
    world->owners = owners;
    world->watchers = 1 - owners;
    MODEL_CHECK(world->Begin(1), "there is no keeper");
    scenario.Thread("owner", [=] { world->HandOver(3); });
    scenario.Thread("watcher", [=] {
      world->End(1);
      world->TryTake(1, 2);
    });
  };
  Explore({.name = "hand_off_slot: a watch of the last slot ends", .preemptions = 5, .weak_choices = 3},
          [=](model::Scenario& scenario) { build(scenario, 1); });
  Explore({.name = "hand_off_slot: a watch of the first slot ends", .preemptions = 3, .weak_choices = 3},
          [=](model::Scenario& scenario) { build(scenario, 0); });
}

TEST(HandOffSlotModel, AWatchBeginsAndEnds) {
  Explore({.name = "hand_off_slot: a watch begins and ends", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOver(3); });
            scenario.Thread("watcher", [=] {
              world->TryTake(1, 1);
              MODEL_CHECK(world->Begin(1), "there is no keeper");
              world->End(1);
              world->TryTake(1, 1);
            });
          });
}

// The worker reads the slot, somebody takes the fiber, a watch begins: what the worker has read is not there any more.
TEST(HandOffSlotModel, AThiefTakesBeforeAnotherOneWatches) {
  Explore({.name = "hand_off_slot: a thief, and a watcher", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOver(2); });
            scenario.Thread("thief", [=] { world->TryTake(1, 1); });
            scenario.Thread("watcher", [=] { static_cast<void>(world->Begin(2)); });
          });
}

TEST(HandOffSlotModel, AThiefTakesAfterAnotherOnesWatch) {
  Explore({.name = "hand_off_slot: a watch ends, a thief", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            MODEL_CHECK(world->Begin(2), "there is no keeper");
            scenario.Thread("owner", [=] { world->HandOver(2); });
            scenario.Thread("thief", [=] { world->TryTake(1, 2); });
            scenario.Thread("watcher", [=] { world->End(2); });
          });
}

TEST(HandOffSlotModel, ASecondWatch) {
  Explore({.name = "hand_off_slot: two watches", .preemptions = 4, .weak_choices = 2}, [](model::Scenario& scenario) {
    auto* world = NewWorld(scenario);
    MODEL_CHECK(world->Begin(1), "there is no keeper");
    scenario.Thread("owner", [=] { world->HandOver(3); });
    scenario.Thread("watcher", [=] {
      world->End(1);
      MODEL_CHECK(world->Begin(1), "there is no keeper");
      world->End(1);
      world->TryTake(1, 1);
    });
  });
}

// HS4. The owner fills its slot and then runs a fiber for long, as in SchedulingGroup::ReadyBy(); the watcher stops
// spinning and goes to sleep, as in Worker::Spin() and NextFiber().
struct SleepyWorld : World {
  IdleWorkers idle;
  bool somebody_looks = true;  // the owner's: as far as it knows
  bool woken = false;          // the owner's: it has woken the watcher
  bool sees = false;           // the watcher's: it stays awake, since the slot is full

  SleepyWorld() { MODEL_CHECK(idle.TryStartSpinning(), "nobody spins"); }

  void FillAndNotify() {
    MODEL_CHECK(Fill(), "it is empty");
    somebody_looks = idle.NobodyToWakeAfterFence();
    if (!somebody_looks) woken = idle.ClaimWorkerToWake() != IdleWorkers::kNobody;
  }
  void GoToSleep() {
    End(1);
    idle.StopSpinning();
    sees = slot().Full();
    idle.PrepareSleep(watchers);
    sees = slot().Full() || sees;
  }
};

void TheWatcherGoesToSleep(model::Scenario& scenario, int hand_overs) {
  auto* world = NewWorld<SleepyWorld>(scenario);
  MODEL_CHECK(world->Begin(1), "there is no keeper");
  scenario.Thread("owner", [=] {
    world->HandOver(hand_overs);
    world->FillAndNotify();
  });
  scenario.Thread("watcher", [=] { world->GoToSleep(); });
  scenario.AtEnd([=] { MODEL_CHECK(world->woken || world->sees, "a fiber waits, and everybody sleeps"); });
}

TEST(HandOffSlotModel, WhatIsFilledInWithoutAFenceIsSeenByTheWatcherThatGoesToSleep) {
  Explore({.name = "hand_off_slot: the watcher goes to sleep", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) { TheWatcherGoesToSleep(scenario, 0); });
}

TEST(HandOffSlotModel, TheSameAfterAHandOver) {
  Explore({.name = "hand_off_slot: hand-over, and the watcher goes to sleep", .preemptions = 5, .weak_choices = 3},
          [](model::Scenario& scenario) { TheWatcherGoesToSleep(scenario, 1); });
}

// The other half of HS4: a third worker goes to sleep, since the slot looks empty to it; the watcher leaves, because it
// has found another fiber. It notifies on behalf of those that have trusted in it, as Worker::NextFiber() does.
TEST(HandOffSlotModel, WhatIsFilledInWithoutAFenceIsNotForgottenByAWatcherThatLeaves) {
  struct Crowd : SleepyWorld {
    bool sleeper_sees = false;
    bool watcher_wakes = false;
  };
  constexpr unsigned kThird = 2;
  Explore({.name = "hand_off_slot: a third goes to sleep, the watcher leaves", .preemptions = 4, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld<Crowd>(scenario);
            MODEL_CHECK(world->Begin(1), "there is no keeper");
            scenario.Thread("owner", [=] { world->FillAndNotify(); });
            scenario.Thread("watcher", [=] {
              world->End(1);
              world->idle.StopSpinning();
              if (world->slot().Full()) {
                world->watcher_wakes = world->idle.ClaimWorkerToWake() != IdleWorkers::kNobody;
              }
            });
            scenario.Thread("third", [=] {
              world->idle.PrepareSleep(kThird);
              world->sleeper_sees = world->slot().Full();
            });
            scenario.AtEnd([=] {
              MODEL_CHECK(world->woken || world->sleeper_sees || world->watcher_wakes,
                          "a fiber waits, a worker sleeps");
            });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
