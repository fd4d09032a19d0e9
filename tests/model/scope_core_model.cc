// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/start/scope_core.{h,cc} through all interleavings: the end of a scope of fibers against the start and the end
// of its children, a start that is refused, a child that spawns, a cancellation, a limit. The scope is deleted as soon
// as Await() has returned, so that whoever touches it later is found. The scheduler and the spin lock are those of
// tests/model/stubs; a fiber's start and end are imitated (Spawn, AddChild), what the scope does in them is not.
// (Children end by returning: no exception is in flight while the model switches.)
//
// Bounds: two preemptions and one weak choice; with a walk and two or three threads beside it, one preemption and one
// weak choice (two preemptions would be more than minutes: tools/model_campaign.sh). About 15 s in release.
#include <gtest/gtest.h>

#include "weft/fiber/start/scope_core.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::fiber::detail {
namespace {

using model::FiberWorld;
using scheduling_group::CancelWord;
using scheduling_group::CurrentFiber;
using scheduling_group::FiberEntity;
using synchronization::CancelNode;
using synchronization::Interruptible;
using synchronization::WaitAccess;
using synchronization::WaitResult;
using Timers = FiberWorld::Timers;

template <class Build>
void Explore(const model::Options& options, Build build) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

struct Child {
  FiberEntity* fiber = nullptr;
  ScopeCore::Slot* slot = nullptr;
  FiberEvent start;
  model::Data<int> done{0};
};

struct Family {
  ScopeCore* core = nullptr;
  Child children[2];
};

// As FiberScope::Spawn().
void Spawn(Family* family, int number) {
  Child* const child = &family->children[number];
  child->slot = family->core->BeginSpawn();
  StartPlan plan;
  family->core->Adopt(&child->slot, &plan);
  child->fiber->EnterFirstScope(plan.options.scope);
  plan.made(plan.made_argument, child->fiber);
  child->start.Set();
}

// A fiber is made, and its group refuses it.
void SpawnMadeAndRefused(Family* family) {
  ScopeCore::Slot* slot = family->core->BeginSpawn();
  StartPlan plan;
  family->core->Adopt(&slot, &plan);
  auto* const fiber = new FiberEntity;
  fiber->EnterFirstScope(plan.options.scope);
  plan.made(plan.made_argument, fiber);
  fiber->LeaveAllScopes();
  family->core->NotStarted(slot);
}

void SpawnRefused(Family* family) {
  ScopeCore::Slot* const slot = family->core->BeginSpawn();
  family->core->NotStarted(slot);
}

// A fiber that Spawn() starts, and its end in the worker.
template <class Body>
void AddChild(FiberWorld& world, Family* family, int number, Body body) {
  struct Call {
    Family* family;
    int number;
    Body body;
  };
  family->children[number].fiber = world.Fiber(number == 0 ? "child 0" : "child 1", Timers::kNo, [=] {
    Child* const child = &family->children[number];
    WaitAccess::WaitUncancelled(child->start);
    Call call{family, number, body};
    family->core->RunChild(
        [](void* argument) {
          auto* const its = static_cast<Call*>(argument);
          its->body(its->family);
          its->family->children[its->number].done.Write(1);
        },
        &call);
    MODEL_CHECK(CurrentFiber()->innermost_scope() == nullptr, "the next fiber of this entity is in the scope (CN4)");
    scheduling_group::FiberOwner* const owner = CurrentFiber()->exit_owner;
    owner->on_exit(owner);
  });
}

void JustEnd(Family*) {}

void WaitForCancellation(Family*) {
  FiberEvent never;
  MODEL_CHECK(WaitAccess::Wait(never, Deadline::None(), Interruptible::kYes) == WaitResult::kInterrupted,
              "nobody else ends it");
}

void DeleteScope(Family* family, std::size_t ended) {
  MODEL_CHECK(family->core->live() == 0, "a child has not ended");
  MODEL_CHECK(family->core->succeeded() == ended, "a child is not counted, or is twice");
  delete family->core;
}

void CheckDone(Family* family, int number) {
  MODEL_CHECK(family->children[number].done.Read() == 1, "a child has not ended");
}

void MakeScope(Family* family, ScopePolicy policy, std::size_t limit) {
  family->core = new ScopeCore(policy, limit, /*nested=*/true);
}

// All slots of the table are taken alike: an owner takes both at once, and a child's spawn would make a chunk.
void MakeScopeOfNobody(Family* family) { family->core = new ScopeCore(ScopePolicy::kCollect, 0, /*nested=*/false); }

// FO1, FO2: the last touch of each.
TEST(ScopeCoreModel, TheScopeGoesWhenAllHaveEnded) {
  Explore({.name = "scope: two children", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, JustEnd);
            AddChild(world, family, 1, JustEnd);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScope(family, ScopePolicy::kCollect, 0);
              Spawn(family, 0);
              Spawn(family, 1);
              family->core->Await();
              CheckDone(family, 0);
              CheckDone(family, 1);
              DeleteScope(family, 2);
            });
          });
}

// FO1: it is waited for, though it comes while the owner waits already.
TEST(ScopeCoreModel, AChildSpawnsWhileTheOwnerWaits) {
  Explore({.name = "scope: a child spawns", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, [](Family* its) { Spawn(its, 1); });
            AddChild(world, family, 1, JustEnd);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScopeOfNobody(family);
              Spawn(family, 0);
              family->core->Await();
              CheckDone(family, 0);
              CheckDone(family, 1);
              DeleteScope(family, 2);
            });
          });
}

// FO3: while the owner waits, and before that, when the one unit of the limit must come back.
TEST(ScopeCoreModel, AChildThatIsRefusedLeavesNothing) {
  Explore({.name = "scope: refused", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    AddChild(world, family, 0, SpawnRefused);
    world.Fiber("owner", Timers::kNo, [=] {
      MakeScopeOfNobody(family);
      Spawn(family, 0);
      family->core->Await();
      CheckDone(family, 0);
      DeleteScope(family, 1);
    });
  });
  Explore({.name = "scope: refused, limit", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, JustEnd);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScope(family, ScopePolicy::kCollect, 1);
              SpawnRefused(family);
              Spawn(family, 0);
              family->core->Await();
              CheckDone(family, 0);
              DeleteScope(family, 1);
            });
          });
}

// CT5: its slot is another child's as soon as it has left the scope, though its spawner does not know of that.
TEST(ScopeCoreModel, ARefusedChildsSlotIsTakenByAnother) {
  Explore({.name = "scope: made, refused", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, [](Family* its) {
              Spawn(its, 1);
              WaitForCancellation(its);
            });
            AddChild(world, family, 1, WaitForCancellation);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScopeOfNobody(family);
              Spawn(family, 0);
              SpawnMadeAndRefused(family);
              family->core->CancelAndAwait();
              DeleteScope(family, 2);
            });
          });
}

TEST(ScopeCoreModel, ItCanBeAwaitedAgain) {
  Explore({.name = "scope: awaited twice", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, JustEnd);
            AddChild(world, family, 1, JustEnd);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScope(family, ScopePolicy::kCollect, 0);
              Spawn(family, 0);
              family->core->Await();
              CheckDone(family, 0);
              Spawn(family, 1);
              family->core->Await();
              CheckDone(family, 1);
              DeleteScope(family, 2);
            });
          });
}

// The unit of the limit comes back before the scope may go.
TEST(ScopeCoreModel, ALimitOfOne) {
  Explore({.name = "scope: limit", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    AddChild(world, family, 0, JustEnd);
    AddChild(world, family, 1, JustEnd);
    world.Fiber("owner", Timers::kNo, [=] {
      MakeScope(family, ScopePolicy::kCollect, 1);
      Spawn(family, 0);
      Spawn(family, 1);
      family->core->Await();
      CheckDone(family, 0);
      CheckDone(family, 1);
      DeleteScope(family, 2);
    });
  });
}

// As FiberScope's destructor.
TEST(ScopeCoreModel, AScopeThatIsLeftCancelsItsChildren) {
  Explore({.name = "scope: left", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    AddChild(world, family, 0, WaitForCancellation);
    world.Fiber("owner", Timers::kNo, [=] {
      MakeScope(family, ScopePolicy::kCollect, 0);
      Spawn(family, 0);
      family->core->CancelAndAwait();
      CheckDone(family, 0);
      DeleteScope(family, 1);
    });
  });
}

// CN2, CN4: a cancellation from outside comes while a child is spawned, and may still walk when the scope is to go.
TEST(ScopeCoreModel, AChildIsSpawnedWhileTheScopeIsCancelled) {
  Explore({.name = "scope: cancelled from outside", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            auto* outer = new CancelNode;
            AddChild(world, family, 0, WaitForCancellation);
            world.Fiber("owner", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), outer);
              MakeScope(family, ScopePolicy::kCollect, 0);
              Spawn(family, 0);
              family->core->Await();
              CheckDone(family, 0);
              DeleteScope(family, 1);
              LeaveScope(CurrentFiber(), outer);
            });
            world.Thread("canceller", [=] { Cancel(outer); });
          });
}

// The first child's success cancels the other one, which may not have been spawned yet.
TEST(ScopeCoreModel, TheFirstSuccessCancelsTheOthers) {
  Explore({.name = "scope: first success", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* family = new Family;
            AddChild(world, family, 0, JustEnd);
            AddChild(world, family, 1, WaitForCancellation);
            world.Fiber("owner", Timers::kNo, [=] {
              MakeScope(family, ScopePolicy::kFirstSuccess, 0);
              Spawn(family, 0);
              Spawn(family, 1);
              family->core->Await();
              CheckDone(family, 0);
              CheckDone(family, 1);
              DeleteScope(family, 2);
            });
          });
}

}  // namespace
}  // namespace weft::fiber::detail
