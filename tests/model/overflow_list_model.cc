// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OverflowList with RunQueue (run_queue.h) through all interleavings, used as QueueLevel does: fibers
// that move from the list into the ring stay visible (GQ2), nobody overtakes them (GQ3), and each comes out once.
#include <gtest/gtest.h>

#include <array>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/queue/run_queue.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr int kFibers = 5;

struct World {
  RunQueue ring{2};
  OverflowList list;
  std::array<FiberEntity, kFibers> fibers;
  int pushed = 0;
  std::array<int, kFibers> popped{};  // how often

  // `listed` fibers wait in the list though the ring is empty.
  explicit World(int listed) {
    Push();
    Push();
    for (int i = 0; i < listed; ++i) Push();
    for (int i = 0; i < 2; ++i) Note(ring.TryPop());
  }

  // By one thread at a time.
  void Push() {
    FiberEntity* fiber = &fibers[static_cast<std::size_t>(pushed++)];
    if (list.Empty() && ring.TryPush(fiber)) return;
    list.PushBehind(ring, &fiber, 1);
  }
  int Note(FiberEntity* fiber) {
    if (fiber == nullptr) return -1;
    const auto number = fiber - fibers.data();
    ++popped[static_cast<std::size_t>(number)];
    return static_cast<int>(number);
  }
  int Pop() {
    if (!list.Empty()) list.Refill(ring);
    return Note(ring.TryPop());
  }

  // The rest comes out, in the order of the pushes.
  void CheckTheRest() {
    for (int last = -1, next = Pop(); next != -1; last = next, next = Pop()) {
      MODEL_CHECK(next > last, "a fiber has overtaken one in the list");
    }
    for (int i = 0; i < pushed; ++i) {
      MODEL_CHECK(popped[static_cast<std::size_t>(i)] == 1, "a fiber is lost, or came twice");
    }
    MODEL_CHECK(list.EmptiedInto(ring) && list.Size() == 0, "something is left");
  }
};

World* NewWorld(model::Scenario& scenario, int listed) {
  auto* world = scenario.New<World>("level", listed);
  scenario.AtEnd([=] { world->CheckTheRest(); });
  return world;
}

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(OverflowListModel, WhatMovesIntoTheRingIsSeenAllTheWhile) {
  Explore({.name = "overflow_list: one refills, one looks", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario, 2);
            scenario.Thread("refills", [=] { world->list.Refill(world->ring); });
            scenario.Thread("looks", [=] {
              for (int i = 0; i < 2; ++i)
                MODEL_CHECK(!world->list.EmptiedInto(world->ring), "nobody has popped the fibers");
            });
          });
}

TEST(OverflowListModel, NobodyOvertakesWhatMovesIntoTheRing) {
  Explore({.name = "overflow_list: one refills, one pushes", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario, 1);
            scenario.Thread("refills", [=] { world->list.Refill(world->ring); });
            scenario.Thread("pushes", [=] { world->Push(); });
          });
}

TEST(OverflowListModel, EachComesOutOnceThoughTwoRefill) {
  Explore({.name = "overflow_list: two pop, one pushes", .preemptions = 2, .weak_choices = 2},
          [](model::Scenario& scenario) {
            auto* world = NewWorld(scenario, 2);
            scenario.Thread("pops", [=] { world->Pop(); });
            scenario.Thread("pops too", [=] { world->Pop(); });
            scenario.Thread("pushes", [=] { world->Push(); });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
