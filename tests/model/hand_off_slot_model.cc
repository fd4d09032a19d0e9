// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HandOffSlot (worker_queues.h) through all interleavings: a worker fills and empties its slot, others take
// from it. Each fiber is taken once, with what its worker wrote to it (HS1). A spinner gets a fiber left in the slot at
// its second sample (HS2). No fiber is forgotten when a worker goes to sleep (with idle_workers.h).
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <span>

#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/queue/worker_queues.h"
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
constexpr int kOwner = 0;  // The slot's worker.
constexpr int kOther = 1;
constexpr int kThird = 2;
constexpr int kWorkers = 3;

struct WorkerQueues {
  HandOffSlot slot;
};

struct World {
  std::array<WorkerQueues, kWorkers> worker_queues;
  std::array<FiberEntity, kMaxFibers> fibers;
  std::array<std::array<int, kMaxFibers>, kWorkers> taken{};  // by taker and fiber: how often
  int filled = 0;                                             // the owner's
  SpinMemory memory;                                          // of kOther
  std::chrono::steady_clock::time_point now{};                // likewise

  HandOffSlot& slot() { return worker_queues[kOwner].slot; }

  void Check(int taker, FiberEntity* fiber) {
    if (fiber == nullptr) return;
    fiber->taker.Write(taker);
    ++taken[taker][fiber->number.Read()];
  }

  // --- The slot's worker ---

  bool Fill(bool fence = true) {
    FiberEntity* fiber = &fibers[filled];
    fiber->number.Write(filled);
    if (!(fence ? slot().TryFillAndFence(fiber) : slot().TryFill(fiber))) return false;
    ++filled;
    return true;
  }
  void HandOff(int times, bool fence = true) {
    for (int i = 0; i < times; ++i) {
      if (Fill(fence)) Take(kOwner);
    }
  }

  // --- Any worker ---

  void Take(int taker, int times = 1) {
    for (int i = 0; i < times; ++i) Check(taker, slot().Take());
  }
  // A spinner whose samples are as far apart as its patience asks for.
  FiberEntity* Look() {
    now += kHandOffPatience;
    return TakeNeglectedHandOff(std::span<WorkerQueues>(worker_queues), kOther, now, &memory);
  }

  // At the end: `left` was in the slot.
  void CheckAll(const FiberEntity* left) {
    for (int i = 0; i < kMaxFibers; ++i) {
      int times = left == &fibers[i] ? 1 : 0;
      for (const auto& by : taken) times += by[i];
      MODEL_CHECK(times == (i < filled ? 1 : 0), "a fiber is lost, or was taken twice");
    }
  }
};

template <class AWorld = World>
AWorld* NewWorld(model::Scenario& scenario) {
  auto* world = scenario.New<AWorld>("worker_queues");
  scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
  scenario.AtEnd([=] { world->CheckAll(world->slot().Take()); });
  return world;
}

template <class Build>
void Explore(const model::Options& options, Build build) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(HandOffSlotModel, AThiefTakes) {
  Explore({.name = "hand_off_slot: 1 thief", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOff(3); });
            scenario.Thread("thief", [=] { world->Take(kOther, 2); });
          });
}

TEST(HandOffSlotModel, AThiefTakesWhatWasFilledInWithoutAFence) {
  Explore({.name = "hand_off_slot: 1 thief, no fence", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOff(3, /*fence=*/false); });
            scenario.Thread("thief", [=] { world->Take(kOther, 2); });
          });
}

TEST(HandOffSlotModel, TwoThievesTake) {
  Explore({.name = "hand_off_slot: 2 thieves", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario);
            scenario.Thread("owner", [=] { world->HandOff(2); });
            scenario.Thread("thief", [=] { world->Take(kOther); });
            scenario.Thread("another", [=] { world->Take(kThird); });
          });
}

// The second fiber fits if the first one has been taken.
TEST(HandOffSlotModel, AFullSlotIsNotFilled) {
  for (const bool fence : {false, true}) {
    Explore({.name = "hand_off_slot: a second fiber", .preemptions = model::kUnbounded, .weak_choices = 3},
            [=](model::Scenario& scenario) {
              auto* world = NewWorld(scenario);
              scenario.Thread("owner", [=] {
                static_cast<void>(world->Fill(fence));
                static_cast<void>(world->Fill(fence));
              });
              scenario.Thread("thief", [=] { world->Take(kOther, 2); });
            });
  }
}

// HS2. In the end the owner runs a fiber for long; the spinner may have seen anything until then.
TEST(HandOffSlotModel, ASpinnerGetsWhatIsLeftInTheSlotAtItsSecondSample) {
  Explore({.name = "hand_off_slot: neglected", .preemptions = model::kUnbounded, .weak_choices = 2},
          [](model::Scenario& scenario) {
            auto* world = scenario.New<World>("worker_queues");
            scenario.Name(&world->fibers, sizeof(world->fibers), "fibers");
            scenario.Thread("owner", [=] {
              world->HandOff(1);
              static_cast<void>(world->Fill());
            });
            scenario.Thread("spinner", [=] {
              for (int i = 0; i < 3; ++i) world->Check(kOther, world->Look());
            });
            scenario.AtEnd([=] {
              const bool full = world->slot().Full();
              FiberEntity* left = world->Look();
              if (left == nullptr) left = world->Look();
              MODEL_CHECK((left != nullptr) == full, "a fiber is neglected");
              world->CheckAll(left);
            });
          });
}

// The owner fills its slot and then runs a fiber for long, as in SchedulingGroup::ReadyBy(). The spinner goes to sleep,
// as in idle_loop.h.
struct SleepyWorld : World {
  IdleWorkers idle;
  bool woken = false;  // the owner's: it has woken the spinner
  bool sees = false;   // the spinner's: it stays awake, since the slot is full

  SleepyWorld() { MODEL_CHECK(idle.TryStartSpinning(), "nobody spins"); }

  void FillAndNotify() {
    MODEL_CHECK(Fill(), "it is empty");
    if (!idle.NobodyToWakeAfterFence()) woken = idle.ClaimWorkerToWake() != IdleWorkers::kNobody;
  }
  void GoToSleep() {
    idle.StopSpinning();
    sees = slot().Full();
    idle.PrepareSleep(kOther);
    sees = slot().Full() || sees;
  }
};

void TheSpinnerGoesToSleep(model::Scenario& scenario, int hand_offs) {
  auto* world = NewWorld<SleepyWorld>(scenario);
  scenario.Thread("owner", [=] {
    world->HandOff(hand_offs);
    world->FillAndNotify();
  });
  scenario.Thread("spinner", [=] { world->GoToSleep(); });
  scenario.AtEnd([=] { MODEL_CHECK(world->woken || world->sees, "a fiber waits, and everybody sleeps"); });
}

TEST(HandOffSlotModel, ASpinnerThatGoesToSleepSeesTheFiberOrIsWoken) {
  Explore({.name = "hand_off_slot: the spinner goes to sleep", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) { TheSpinnerGoesToSleep(scenario, 0); });
}

TEST(HandOffSlotModel, TheSameAfterAHandOff) {
  Explore({.name = "hand_off_slot: hand-off, and the spinner goes to sleep",
           .preemptions = model::kUnbounded,
           .weak_choices = 3},
          [](model::Scenario& scenario) { TheSpinnerGoesToSleep(scenario, 1); });
}

}  // namespace
}  // namespace weft::scheduling_group
