// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/cancel/child_table.{h,cc} through all interleavings: of the children that are waited for exactly one says that
// it was the last, then all that the others did is visible, and the table may go; a walk finds each child that lives,
// also while slots of others become free.
#include <gtest/gtest.h>

#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel/child_table.h"
#include "weft/tests/testing/interleave.h"

namespace weft::synchronization {
namespace {

using scheduling_group::FiberEntity;
using Slot = ChildTable::Slot;

struct World {
  ChildTable* table = new ChildTable;
  FiberEntity fibers[4];
  model::Data<int> done[4]{0, 0, 0, 0};  // What the children do.
  model::Parker parker;

  CancelNode scope;

  void Spawn(int child, Slot* slot) {
    fibers[child].EnterFirstScope(&scope);
    ChildTable::Fill(slot, &fibers[child]);
  }
  void SpawnByOwner(int child) { Spawn(child, table->TakeByOwner()); }
  void Spawn(int child) { Spawn(child, table->Take()); }
  void End(int child) {
    done[child].Write(1);
    fibers[child].LeaveAllScopes();
    if (table->End()) parker.Unpark();
  }
  // Then the table is gone: CT6.
  void Await(int children) {
    if (table->BeginWait()) {
      parker.Park();
      table->EndWait();
    }
    for (int i = 0; i < children; ++i) MODEL_CHECK(done[i].Read() == 1, "a child has not ended");
    MODEL_CHECK(table->live() == 0, "CT7");
    delete table;
  }
  bool WalkFinds(int child) {
    base::SpinLockGuard guard(table->lock);
    table->Rewind();
    while (FiberEntity* const fiber = table->Next()) {
      if (fiber == &fibers[child]) return true;
    }
    return false;
  }
};

void Explore(const char* name, int preemptions, void (*build)(model::Scenario&, World*)) {
  const model::Result result =
      model::Explore({.name = name, .preemptions = preemptions, .weak_choices = 2},
                     [build](model::Scenario& scenario) { build(scenario, scenario.New<World>("world")); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ChildTableModel, OneOfThoseThatAreWaitedForIsTheLast) {
  Explore("child_table: two children", model::kUnbounded, [](model::Scenario& scenario, World* world) {
    for (int i = 0; i < 2; ++i) world->SpawnByOwner(i);
    scenario.Thread("owner", [=] { world->Await(2); });
    scenario.Thread("child 0", [=] { world->End(0); });
    scenario.Thread("child 1", [=] { world->End(1); });
  });
}

TEST(ChildTableModel, AChildSpawnsWhileTheOwnerWaits) {
  Explore("child_table: a child spawns", 3, [](model::Scenario& scenario, World* world) {
    world->SpawnByOwner(0);
    scenario.Thread("owner", [=] { world->Await(3); });
    scenario.Thread("child 0", [=] {
      world->Spawn(1);
      world->End(1);  // It runs at once, and here.
      world->Spawn(2);
      world->End(0);
      world->End(2);
    });
  });
}

// All slots of the table are taken: what the owner spawns needs that of a child that has ended, or a new one.
TEST(ChildTableModel, AWalkFindsThoseThatLiveWhileSlotsBecomeFree) {
  Explore("child_table: sweep", model::kUnbounded, [](model::Scenario& scenario, World* world) {
    for (int i = 0; i < 2; ++i) world->Spawn(i);
    scenario.Thread("owner", [=] {
      world->Spawn(2);
      world->Spawn(3);
      for (int i = 1; i < 4; ++i) MODEL_CHECK(world->WalkFinds(i), "it lives");
    });
    scenario.Thread("child 0", [=] { world->End(0); });
  });
}

// As before, by two spawners: both look for slots, while one has a slot that it has not filled.
TEST(ChildTableModel, NoSlotIsGivenToTwo) {
  Explore("child_table: two sweep", 2, [](model::Scenario& scenario, World* world) {
    for (int i = 0; i < 2; ++i) world->Spawn(i);
    world->End(0);
    scenario.Thread("owner", [=] {
      world->Spawn(2);
      MODEL_CHECK(world->WalkFinds(2), "it lives");
    });
    scenario.Thread("child 1", [=] {
      world->Spawn(3);
      MODEL_CHECK(world->WalkFinds(3), "it lives");
    });
    scenario.AtEnd([=] {
      for (int i = 1; i < 4; ++i) MODEL_CHECK(world->WalkFinds(i), "it lives");
      MODEL_CHECK(world->table->live() == 3, "CT7");
    });
  });
}

// Of FiberScope::Live(), and of a spawner that takes all slots for free ones if no child lives (CT9).
TEST(ChildTableModel, AChildThatLivesIsCountedWhileOthersComeAndGo) {
  Explore("child_table: live", model::kUnbounded, [](model::Scenario& scenario, World* world) {
    world->SpawnByOwner(0);
    scenario.Thread("owner", [=] {
      world->SpawnByOwner(1);
      world->End(1);
      static_cast<void>(world->table->BeginWait());
    });
    scenario.Thread("child 0", [=] { MODEL_CHECK(world->table->live() != 0, "child 0 lives"); });
  });
}

}  // namespace
}  // namespace weft::synchronization
