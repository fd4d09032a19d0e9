// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/child_table.{h,cc} through all interleavings: of the children that are waited for exactly one says that it was
// the last, then all that the others did is visible, and the table may go; a slot that came back is complete.
#include <gtest/gtest.h>

#include "weft/sync/child_table.h"
#include "weft/tests/testing/interleave.h"

namespace weft::synchronization {
namespace {

using Slot = ChildTable::Slot;

void OnExit(scheduling_group::FiberOwner*) {}

struct World {
  ChildTable* table = new ChildTable;
  Slot* slots[3] = {};
  model::Data<int> done[3]{0, 0, 0};  // What the children do.
  model::Parker parker;

  void End(int child) {
    done[child].Write(1);
    if (table->Free(slots[child])) parker.Unpark();
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
};

void Explore(const char* name, void (*build)(model::Scenario&, World*)) {
  const model::Result result =
      model::Explore({.name = name, .preemptions = model::kUnbounded, .weak_choices = 2},
                     [build](model::Scenario& scenario) { build(scenario, scenario.New<World>("world")); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(ChildTableModel, OneOfThoseThatAreWaitedForIsTheLast) {
  Explore("child_table: two children", [](model::Scenario& scenario, World* world) {
    for (int i = 0; i < 2; ++i) world->slots[i] = world->table->TakeByOwner(world, &OnExit);
    scenario.Thread("owner", [=] { world->Await(2); });
    scenario.Thread("child 0", [=] { world->End(0); });
    scenario.Thread("child 1", [=] { world->End(1); });
  });
}

TEST(ChildTableModel, AChildSpawnsWhileTheOwnerWaits) {
  Explore("child_table: a child spawns", [](model::Scenario& scenario, World* world) {
    world->slots[0] = world->table->TakeByOwner(world, &OnExit);
    scenario.Thread("owner", [=] { world->Await(3); });
    scenario.Thread("child 0", [=] {
      world->slots[1] = world->table->Take(world, &OnExit);
      world->End(1);  // It runs at once, and here.
      world->slots[2] = world->table->Take(world, &OnExit);
      world->End(0);
      world->End(2);
    });
  });
}

TEST(ChildTableModel, SlotsComeBackWhileOthersAreTaken) {
  Explore("child_table: taken back", [](model::Scenario& scenario, World* world) {
    world->slots[0] = world->table->Take(world, &OnExit);
    world->slots[1] = world->table->Take(world, &OnExit);
    // The other two slots of the table, so that the next one comes back from a child.
    for (int i = 0; i < 2; ++i) static_cast<void>(world->table->Free(world->table->Take(world, &OnExit)));
    scenario.Thread("owner", [=] {
      world->slots[2] = world->table->Take(world, &OnExit);
      world->End(2);
      world->Await(3);
    });
    scenario.Thread("child 0", [=] { world->End(0); });
    scenario.Thread("child 1", [=] { world->End(1); });
  });
}

// Of FiberScope::Live().
TEST(ChildTableModel, AChildThatLivesIsSeenWhileItSpawns) {
  Explore("child_table: live", [](model::Scenario& scenario, World* world) {
    world->slots[0] = world->table->Take(world, &OnExit);
    static_cast<void>(world->table->Free(world->table->Take(world, &OnExit)));
    scenario.Thread("owner", [=] { MODEL_CHECK(world->table->live() != 0, "child 0 lives"); });
    scenario.Thread("child 0", [=] { world->slots[1] = world->table->Take(world, &OnExit); });
  });
}

}  // namespace
}  // namespace weft::synchronization
