// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Cancellation through all interleavings: sync/cancel/cancel_node.{h,cc}, child_table.{h,cc}, the cancellable waits of
// wait_queue.{h,cc}, the places of FiberEvent and FiberSemaphore from which a waiter is withdrawn, and selections of
// the two (select.{h,cc}), and OvertakenCall (cancel_on_stop.h). A cancellation against a notification, a time-out,
// another cancellation, the entry and the end of a scope, the start and the end of a child, an exception from outside,
// a scope that begins to cover its owner. A wait that is missed is a deadlock; what a wait that was notified may
// destroy is destroyed. The scheduler, the timers and the spin lock are those of tests/model/stubs. (But for selections
// waits say how they ended: no exception is in flight while the model switches.)
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <mutex>

#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel_on_stop.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/select.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::synchronization {
namespace {

using model::FiberWorld;
using scheduling_group::CancelWord;
using scheduling_group::CurrentFiber;
using Timers = FiberWorld::Timers;

constexpr std::chrono::hours kSoon{1};  // Time is the model's.

template <class Build>
void Explore(const model::Options& options, Build build) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

// The kernel has no membarrier(): all fences are full ones.
class WithoutMembarrier {
 public:
  WithoutMembarrier() { model_has_membarrier = false; }
  ~WithoutMembarrier() { model_has_membarrier = true; }
};

template <class Primitive>
WaitResult Wait(Primitive& primitive, Deadline deadline = {}) {
  return WaitAccess::Wait(primitive, deadline, Interruptible::kYes);
}

// --- One fiber, one scope ---

// The cancellation may come before the scope is entered, before the wait, in it: it is never missed.
void ReachTheWait() {
  Explore({.name = "cancel: event", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* node = new CancelNode;
    world.Fiber("fiber", Timers::kNo, [=] {
      FiberEvent event;  // Gone as soon as the wait has ended.
      EnterScope(CurrentFiber(), node);
      MODEL_CHECK(Wait(event) == WaitResult::kInterrupted, "nobody else ends it");
      LeaveScope(CurrentFiber(), node);
    });
    world.Thread("canceller", [=] { Cancel(node); });
  });
  Explore({.name = "cancel: semaphore", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* node = new CancelNode;
    world.Fiber("fiber", Timers::kNo, [=] {
      FiberSemaphore semaphore(0);
      EnterScope(CurrentFiber(), node);
      MODEL_CHECK(Wait(semaphore) == WaitResult::kInterrupted, "nobody else ends it");
      LeaveScope(CurrentFiber(), node);
    });
    world.Thread("canceller", [=] { Cancel(node); });
  });
}

TEST(CancelModel, ACancellationReachesTheWait) { ReachTheWait(); }

TEST(CancelModel, ACancellationReachesTheWaitWithoutMembarrier) {
  const WithoutMembarrier without;
  ReachTheWait();
}

// SW2: the event is gone when the wait was notified, and the canceller may have seen the waiter.
TEST(CancelModel, ANotifiedWaiterMayDestroyItsEvent) {
  Explore({.name = "cancel: event, set", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* node = new CancelNode;
    auto* event = new FiberEvent;
    world.Fiber("fiber", Timers::kNo, [=] {
      EnterScope(CurrentFiber(), node);
      if (Wait(*event) == WaitResult::kNotified) delete event;
      LeaveScope(CurrentFiber(), node);
    });
    world.Thread("canceller", [=] { Cancel(node); });
    world.Thread("notifier", [=] { event->Set(); });
  });
}

TEST(CancelModel, AUnitIsTakenOrLeft) {
  Explore({.name = "cancel: semaphore, released", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              CancelNode node;
              FiberSemaphore semaphore{0};
              int taken = 0;
            };
            auto* shared = new Shared;
            world.Fiber("fiber", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), &shared->node);
              if (Wait(shared->semaphore) == WaitResult::kNotified) ++shared->taken;
              LeaveScope(CurrentFiber(), &shared->node);
            });
            world.Thread("canceller", [=] { Cancel(&shared->node); });
            world.Thread("releaser", [=] { shared->semaphore.Release(); });
            scenario.AtEnd([=] {
              if (shared->semaphore.TryAcquire()) ++shared->taken;
              MODEL_CHECK(shared->taken == 1, "the unit is lost, or there are two");
            });
          });
}

// Beside one in the queue, which gets the unit that the cancelled one does not take.
TEST(CancelModel, AUnitGoesToTheNext) {
  Explore({.name = "cancel: semaphore, two waiters", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              CancelNode node;
              FiberSemaphore semaphore{0};
              int taken = 0;
            };
            auto* shared = new Shared;
            world.Fiber("cancelled", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), &shared->node);
              if (Wait(shared->semaphore) == WaitResult::kNotified) {
                ++shared->taken;
                shared->semaphore.Release();
              }
              LeaveScope(CurrentFiber(), &shared->node);
            });
            world.Fiber("other", Timers::kNo, [=] {
              WaitAccess::WaitUncancelled(shared->semaphore);
              ++shared->taken;
            });
            world.Thread("canceller", [=] { Cancel(&shared->node); });
            world.Thread("releaser", [=] { shared->semaphore.Release(); });
            scenario.AtEnd([=] { MODEL_CHECK(shared->taken >= 1, "the other one waits beside a unit"); });
          });
}

// EV1: beside one in the queue, which is woken though the cancelled one has left the word.
TEST(CancelModel, AWaiterBesideACancelledOneIsWoken) {
  Explore({.name = "cancel: event, two waiters", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              CancelNode node;
              FiberEvent event;
            };
            auto* shared = new Shared;
            world.Fiber("cancelled", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), &shared->node);
              static_cast<void>(Wait(shared->event));
              LeaveScope(CurrentFiber(), &shared->node);
            });
            world.Fiber("other", Timers::kNo, [=] { WaitAccess::WaitUncancelled(shared->event); });
            world.Thread("canceller, notifier", [=] {
              Cancel(&shared->node);
              shared->event.Set();
            });
          });
}

TEST(CancelModel, ACancellationANotificationAndATimeOut) {
  Explore({.name = "cancel: timed event", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* node = new CancelNode;
            auto* event = new FiberEvent;
            world.Fiber("fiber", Timers::kYes, [=] {
              EnterScope(CurrentFiber(), node);
              static_cast<void>(Wait(*event, kSoon));
              LeaveScope(CurrentFiber(), node);
            });
            world.Thread("canceller", [=] { Cancel(node); });
            world.Thread("notifier", [=] { event->Set(); });
          });
}

// CN3: a scope that was left does not cancel what follows it.
TEST(CancelModel, AScopeThatIsLeftCancelsNothing) {
  Explore({.name = "cancel: left", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* inner = new CancelNode;
    world.Fiber("fiber", Timers::kNo, [=] {
      CancelNode outer;
      EnterScope(CurrentFiber(), &outer);
      EnterScope(CurrentFiber(), inner);
      LeaveScope(CurrentFiber(), inner);
      MODEL_CHECK(!CurrentFiber()->cancel_word.pending(), "a mark is left");
      LeaveScope(CurrentFiber(), &outer);
    });
    world.Thread("canceller", [=] { Cancel(inner); });
  });
}

// CN3: a cancellation from outside is known in a scope that is entered meanwhile, and after it.
TEST(CancelModel, AScopeIsEnteredBelowACancelledOne) {
  Explore({.name = "cancel: entered below", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* outer = new CancelNode;
            world.Fiber("fiber", Timers::kNo, [=] {
              FiberEvent never;
              EnterScope(CurrentFiber(), outer);
              CancelNode inner;
              EnterScope(CurrentFiber(), &inner);
              MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
              LeaveScope(CurrentFiber(), &inner);
              MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "the outer scope is cancelled still");
              LeaveScope(CurrentFiber(), outer);
            });
            world.Thread("canceller", [=] { Cancel(outer); });
          });
}

// CancelHandle: the node is gone when its scope has ended.
TEST(CancelModel, AHandleDoesNotTouchAScopeThatHasGone) {
  Explore({.name = "cancel: handle", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    struct Shared {
      base::SpinLock lock;
      CancelNode* node = new CancelNode;
      FiberEvent event;
    };
    auto* shared = new Shared;
    world.Fiber("fiber", Timers::kNo, [=] {
      CancelNode* const node = shared->node;
      EnterScope(CurrentFiber(), node);
      static_cast<void>(Wait(shared->event));
      LeaveScope(CurrentFiber(), node);
      {
        base::SpinLockGuard guard(shared->lock);
        shared->node = nullptr;
      }
      delete node;
    });
    world.Thread("canceller", [=] { CancelIfThere(&shared->lock, &shared->node); });
    world.Thread("notifier", [=] { shared->event.Set(); });
  });
}

// --- Several scopes ---

// SW2: the second canceller finds the first one's mark.
TEST(CancelModel, TwoCancellersOfNestedScopes) {
  Explore({.name = "cancel: two cancellers", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              CancelNode outer;
              CancelNode inner;
            };
            auto* shared = new Shared;
            auto* event = new FiberEvent;
            FiberEntity* const fiber = world.Fiber("fiber", Timers::kNo, [=] {
              if (Wait(*event) == WaitResult::kNotified) delete event;
            });
            EnterScope(fiber, &shared->outer);
            EnterScope(fiber, &shared->inner);
            world.Thread("canceller, notifier", [=] {
              Cancel(&shared->outer);
              event->Set();
            });
            world.Thread("another canceller", [=] { Cancel(&shared->inner); });
          });
}

// Deadlines that pass together: the second walk finds the mark of the first.
TEST(CancelModel, NestedScopesAreCancelledAtOnce) {
  Explore({.name = "cancel: two at once", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              CancelNode outer;
              CancelNode inner;
            };
            auto* shared = new Shared;
            auto* event = new FiberEvent;
            world.Fiber("fiber", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), &shared->outer);
              EnterScope(CurrentFiber(), &shared->inner);
              if (Wait(*event) == WaitResult::kNotified) delete event;
              LeaveScope(CurrentFiber(), &shared->inner);
              LeaveScope(CurrentFiber(), &shared->outer);
            });
            world.Thread("canceller", [=] {
              CancelNode* const nodes[] = {&shared->outer, &shared->inner};
              CancelAll(nodes, 2, CancelReason::kDeadline);
            });
            world.Thread("notifier", [=] { event->Set(); });
          });
}

// What the wait leaves on the stack stays as it is, so that who touches it too late goes on to the event.
__attribute__((noinline)) WaitResult WaitDeepInTheStack(FiberEvent& event) {
  char above[4096];
  asm volatile("" : : "r"(above) : "memory");
  const WaitResult result = Wait(event);
  asm volatile("" : : "r"(above) : "memory");
  return result;
}

// SW2: a worker that has seen the mark of an earlier scope of the fiber, and is late.
TEST(CancelModel, AWorkerIsLate) {
  Explore({.name = "cancel: late worker", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* node = new CancelNode;
            auto* event = new FiberEvent;
            FiberEntity* const fiber = world.Fiber("fiber", Timers::kNo, [=] {
              if (WaitDeepInTheStack(*event) == WaitResult::kNotified) delete event;
            });
            EnterScope(fiber, node);
            world.Thread("canceller", [=] { Cancel(node); });
            world.Thread("worker", [=] {
              event->Set();
              EndPendingWait(fiber);
            });
          });
}

// Also if the fiber enters the scope afterwards.
TEST(CancelModel, WhatWasDoneBeforeACancellationIsVisible) {
  Explore({.name = "cancel: visible", .preemptions = 2, .weak_choices = 2}, [](model::Scenario&, FiberWorld& world) {
    struct Shared {
      CancelNode node;
      model::Data<int> data{0};
    };
    auto* shared = new Shared;
    world.Fiber("fiber", Timers::kNo, [=] {
      FiberEvent event;
      EnterScope(CurrentFiber(), &shared->node);
      MODEL_CHECK(Wait(event) == WaitResult::kInterrupted, "nobody else ends it");
      MODEL_CHECK(TakeInjected(CurrentFiber()) == nullptr, "none");  // As ThrowInterrupted().
      MODEL_CHECK(shared->data == 1, "the wait ended before");
      LeaveScope(CurrentFiber(), &shared->node);
    });
    world.Thread("canceller", [=] {
      shared->data = 1;
      Cancel(&shared->node);
    });
  });
}

// --- A scope of fibers and its owner ---

// CN3: the cancellation counts for the owner while the scope covers it, and not before or after.
TEST(CancelModel, AScopeCoversItsOwnerForAWhile) {
  Explore({.name = "cancel: cover", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* node = new CancelNode;
    node->covers_owner.store(false, std::memory_order_relaxed);
    world.Fiber("owner", Timers::kNo, [=] {
      EnterScope(CurrentFiber(), node);
      MODEL_CHECK(!CurrentFiber()->cancel_word.pending(), "it does not cover its owner yet");
      SetCoversOwner(CurrentFiber(), node, true);
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      SetCoversOwner(CurrentFiber(), node, false);
      MODEL_CHECK(!CurrentFiber()->cancel_word.pending(), "it does not cover its owner any more");
      LeaveScope(CurrentFiber(), node);
    });
    world.Thread("canceller", [=] { Cancel(node); });
  });
}

// --- An exception from outside (Fiber::Interrupt) ---

// It reaches the wait, and is thrown once: the next wait is undisturbed.
TEST(CancelModel, AnExceptionEndsOneWait) {
  Explore({.name = "inject: a wait", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    struct Shared {
      CancelNode node;
      FiberEvent injected;
    };
    auto* shared = new Shared;
    FiberEntity* const fiber = world.Fiber("fiber", Timers::kNo, [=] {
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      MODEL_CHECK(TakeInjected(CurrentFiber()) != nullptr, "the wait ended for nothing");
      MODEL_CHECK(!CurrentFiber()->cancel_word.pending(), "a mark is left");
      MODEL_CHECK(Wait(shared->injected) == WaitResult::kNotified, "the exception is thrown twice");
    });
    EnterScope(fiber, &shared->node);
    world.Thread("injector", [=] {
      Inject(&shared->node, std::make_exception_ptr(1));
      shared->injected.Set();
    });
  });
}

// It is thrown once, or still there when the scope ends: also beside a cancellation, which stays.
TEST(CancelModel, AnExceptionBesideACancellation) {
  Explore({.name = "inject: cancelled", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              CancelNode node;
              int taken = 0;
            };
            auto* shared = new Shared;
            FiberEntity* const fiber = world.Fiber("fiber", Timers::kNo, [=] {
              FiberEvent never;
              MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
              if (TakeInjected(CurrentFiber()) != nullptr) ++shared->taken;
              MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "it is cancelled, too");
            });
            EnterScope(fiber, &shared->node);
            world.Thread("injector", [=] { Inject(&shared->node, std::make_exception_ptr(1)); });
            world.Thread("canceller", [=] { Cancel(&shared->node); });
            scenario.AtEnd([=] {
              const int left = shared->node.has_injected.load(std::memory_order_relaxed) ? 1 : 0;
              MODEL_CHECK(shared->taken + left == 1, "the exception is lost, or there are two");
              MODEL_CHECK((shared->node.injected != nullptr) == (left == 1), "a flag without an exception");
              shared->node.injected = nullptr;
            });
          });
}

// A scope that has been left takes none.
TEST(CancelModel, AnExceptionForAScopeThatIsLeft) {
  Explore({.name = "inject: left", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    struct Shared {
      CancelNode node;
      model::Data<int> after{0};
    };
    auto* shared = new Shared;
    FiberEntity* const fiber = world.Fiber("fiber", Timers::kNo, [=] {
      LeaveScope(CurrentFiber(), &shared->node);
      MODEL_CHECK(!CurrentFiber()->cancel_word.pending(), "a mark is left");
      // As JoinState, which takes what came too late with it.
      const bool came = shared->node.has_injected.load(std::memory_order_relaxed);
      CancelNode next;
      EnterScope(CurrentFiber(), &next);
      MODEL_CHECK(TakeInjected(CurrentFiber()) == nullptr, "the exception was for the former scope");
      MODEL_CHECK(came == shared->node.has_injected.load(std::memory_order_relaxed), "it came after the end");
      LeaveScope(CurrentFiber(), &next);
      shared->node.injected = nullptr;
    });
    EnterScope(fiber, &shared->node);
    world.Thread("injector", [=] { Inject(&shared->node, std::make_exception_ptr(1)); });
  });
}

// --- Children ---

struct Family {
  Family() {
    scope.children = &table;
    scope.covers_owner.store(false, std::memory_order_relaxed);
  }
  ChildTable table;
  CancelNode scope;
  FiberEntity* child = nullptr;
  FiberEvent start;
  FiberEvent ended;
};

// What a scope of fibers does with its table and its node, so that a walk meets a child anywhere. The child is a fiber
// that waits for `start`. (The shipped ScopeCore is in scope_core_model.cc.)
void StartChild(Family* family) {
  ChildTable::Slot* const slot = family->table.Take();
  family->child->EnterFirstScope(&family->scope);
  ChildTable::Fill(slot, family->child);
  InheritCancellation(family->child);
  family->start.Set();
}

void AwaitChild(Family* family) {
  WaitAccess::WaitUncancelled(family->ended);
  static_cast<void>(family->table.End());
}

void Spawn(Family* family) {
  StartChild(family);
  AwaitChild(family);
}

void EndChild(Family* family) {
  CurrentFiber()->LeaveAllScopes();
  family->ended.Set();
}

// CN2: spawned while the scope is cancelled.
void SpawnMeanwhile() {
  Explore({.name = "cancel: spawn", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    family->child = world.Fiber("child", Timers::kNo, [=] {
      WaitAccess::WaitUncancelled(family->start);
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      EndChild(family);
    });
    world.Fiber("parent", Timers::kNo, [=] {
      EnterScope(CurrentFiber(), &family->scope);
      Spawn(family);
      LeaveScope(CurrentFiber(), &family->scope);
    });
    world.Thread("canceller", [=] { Cancel(&family->scope); });
  });
}

TEST(CancelModel, AChildThatIsSpawnedMeanwhileIsCancelled) { SpawnMeanwhile(); }

TEST(CancelModel, AChildThatIsSpawnedMeanwhileIsCancelledWithoutMembarrier) {
  const WithoutMembarrier without;
  SpawnMeanwhile();
}

// CN7: the owner sets the deadline while another fiber spawns.
void SetDeadlineMeanwhile() {
  Explore({.name = "cancel: deadline", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    auto* is_set = new FiberEvent;
    family->child = world.Fiber("child", Timers::kNo, [=] {
      WaitAccess::WaitUncancelled(family->start);
      WaitAccess::WaitUncancelled(*is_set);
      MODEL_CHECK(CurrentFiber()->cancel_word.pending_or_timed(), "it does not look at the clock");
      EndChild(family);
    });
    FiberEntity* const owner = world.Fiber("owner", Timers::kNo, [=] {
      MODEL_CHECK(!SetDeadline(CurrentFiber(), &family->scope, Deadline(Deadline::TimePoint::max() - kSoon)), "passed");
      is_set->Set();
      WaitAccess::WaitUncancelled(family->ended);
      LeaveScope(CurrentFiber(), &family->scope);
    });
    EnterScope(owner, &family->scope);
    world.Fiber("spawner", Timers::kNo, [=] { StartChild(family); });
  });
}

TEST(CancelModel, AChildThatIsSpawnedMeanwhileKnowsTheDeadline) { SetDeadlineMeanwhile(); }

TEST(CancelModel, AChildThatIsSpawnedMeanwhileKnowsTheDeadlineWithoutMembarrier) {
  const WithoutMembarrier without;
  SetDeadlineMeanwhile();
}

// The waiter and the timer thread both see that the deadline has passed, and somebody notifies.
TEST(CancelModel, AWaiterAndTheTimerThreadCancelAtOnce) {
  for (const Deadline deadline : {Deadline::None(), Deadline(kSoon)}) {  // Of the wait: in a place, or in a queue.
    Explore({.name = "cancel: late", .preemptions = 1, .weak_choices = 1}, [=](model::Scenario&, FiberWorld& world) {
      auto* node = new CancelNode;
      node->deadline.store(0, std::memory_order_relaxed);
      auto* event = new FiberEvent;
      world.Fiber("fiber", Timers::kYes, [=] {
        EnterScope(CurrentFiber(), node);
        const WaitResult result = Wait(*event, deadline);
        if (result == WaitResult::kNotified) delete event;
        FiberEvent never;
        MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "it is cancelled for good");
        LeaveScope(CurrentFiber(), node);
      });
      world.Thread("timer thread", [=] { Cancel(node, CancelReason::kDeadline); });
      world.Thread("notifier", [=] { event->Set(); });
    });
  }
}

// CN4: a child that ends while it is visited; its scope is left right after.
TEST(CancelModel, AChildThatEndsMeanwhile) {
  Explore({.name = "cancel: end", .preemptions = 1, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* family = new Family;
    family->child = world.Fiber("child", Timers::kNo, [=] {
      WaitAccess::WaitUncancelled(family->start);
      CancelNode own;
      EnterScope(CurrentFiber(), &own);
      LeaveScope(CurrentFiber(), &own);
      EndChild(family);
    });
    auto* outer = new CancelNode;
    world.Fiber("parent", Timers::kNo, [=] {
      EnterScope(CurrentFiber(), outer);
      EnterScope(CurrentFiber(), &family->scope);
      Spawn(family);
      LeaveScope(CurrentFiber(), &family->scope);
      delete family;
      LeaveScope(CurrentFiber(), outer);
    });
    world.Thread("canceller", [=] { Cancel(outer); });
  });
}

// CN6: two walks in one tree, one of which begins below the other; a slot names a fiber that has gone elsewhere.
TEST(CancelModel, TwoWalksDoNotWaitForEachOther) {
  Explore({.name = "cancel: two walks", .preemptions = 1, .weak_choices = 0}, [](model::Scenario&, FiberWorld& world) {
    auto* outer = new CancelNode;
    auto* family = new Family;
    auto* next = new CancelNode;  // As of the next fiber with the child's entity.
    FiberEntity* const parent = world.Fiber("parent", Timers::kNo, [=] {
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      AwaitChild(family);
    });
    family->child = world.Fiber("child", Timers::kNo, [=] {
      WaitAccess::WaitUncancelled(family->start);
      CurrentFiber()->LeaveAllScopes();
      EnterScope(CurrentFiber(), next);
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      MODEL_CHECK(FindCause(CurrentFiber()) == next, "by a scope that it has left");
      LeaveScope(CurrentFiber(), next);
      family->ended.Set();
    });
    EnterScope(parent, outer);
    EnterScope(parent, &family->scope);
    StartChild(family);
    world.Thread("canceller", [=] { Cancel(outer); });
    world.Thread("another", [=] {
      Cancel(&family->scope);
      Cancel(next);
    });
  });
}

// A cancelled scope that begins to cover its owner cancels the fibers in the owner's further scopes, too.
TEST(CancelModel, AChildComesBelowAScopeThatCoversItsOwner) {
  Explore({.name = "cancel: cover a child", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* outer = new CancelNode;
            outer->covers_owner.store(false, std::memory_order_relaxed);
            auto* family = new Family;
            family->child = world.Fiber("child", Timers::kNo, [=] {
              WaitAccess::WaitUncancelled(family->start);
              FiberEvent never;
              CancelNode own;
              EnterScope(CurrentFiber(), &own);
              MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
              LeaveScope(CurrentFiber(), &own);
              EndChild(family);
            });
            world.Fiber("owner", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), outer);
              EnterScope(CurrentFiber(), &family->scope);
              StartChild(family);
              SetCoversOwner(CurrentFiber(), outer, true);
              AwaitChild(family);
              LeaveScope(CurrentFiber(), &family->scope);
              LeaveScope(CurrentFiber(), outer);
            });
            world.Thread("canceller", [=] { Cancel(outer); });
          });
}

// A shield in the child keeps the cancellation from its inner wait.
TEST(CancelModel, AShieldHoldsAndEnds) {
  Explore({.name = "cancel: shield", .preemptions = 2, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* node = new CancelNode;
    auto* event = new FiberEvent;
    world.Fiber("fiber", Timers::kNo, [=] {
      CancelNode shield;
      shield.shielded = true;
      EnterScope(CurrentFiber(), node);
      EnterScope(CurrentFiber(), &shield);
      MODEL_CHECK(Wait(*event) == WaitResult::kNotified, "it is shielded");
      LeaveScope(CurrentFiber(), &shield);
      FiberEvent never;
      MODEL_CHECK(Wait(never) == WaitResult::kInterrupted, "nobody else ends it");
      LeaveScope(CurrentFiber(), node);
    });
    world.Thread("canceller", [=] { Cancel(node); });
    world.Thread("notifier", [=] { event->Set(); });
  });
}

// COS1: a std::stop_callback cancels a scope whose fiber leaves it and goes. (That the callback's object stays until it
// has returned is the standard library's part: it is not deleted here.)
TEST(CancelModel, ACallFromOutsideIsOverBeforeItsTargetGoes) {
  Explore({.name = "cancel: a stop callback", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) {
            auto* call = new OvertakenCall;
            auto* node = new CancelNode;
            world.Fiber("owner", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), node);
              LeaveScope(CurrentFiber(), node);
              call->Close();
              delete node;
            });
            world.Thread("stops", [=] { call->Run([=] { Cancel(node); }); });
          });
}

// --- Selections ---

// SL4, SL5: an event and a unit come together, and a cancellation. What was not taken is still there, and both may go.
struct Choice {
  FiberEvent event;
  FiberSemaphore semaphore{0};
  CancelNode node;
  int taken = 0;
};

// Which case was taken; -1: none, it was cancelled. (The handler of the exception touches nothing of the model's.)
int SelectOne(Choice* choice) {
  Selection selection;
  QueueCase<FiberEvent> event(&selection, &choice->event);
  QueueCase<FiberSemaphore> semaphore(&selection, &choice->semaphore);
  SelectCase* const cases[] = {&event, &semaphore};
  int taken = -1;
  try {
    taken = static_cast<int>(selection.Wait(cases, Deadline::None()));
  } catch (const FiberCancelled&) {
  }
  return taken;
}

void Choose(const model::Options& options, bool cancelled) {
  Explore(options, [cancelled](model::Scenario& scenario, FiberWorld& world) {
    auto* choice = new Choice;
    world.Fiber("fiber", Timers::kNo, [=] {
      EnterScope(CurrentFiber(), &choice->node);
      const int taken = SelectOne(choice);
      LeaveScope(CurrentFiber(), &choice->node);
      choice->taken += taken == 1 ? 1 : 0;
      MODEL_CHECK(cancelled || taken != -1, "nobody has cancelled it");
    });
    if (cancelled) {
      world.Thread("canceller", [=] { Cancel(&choice->node); });
    } else {
      world.Thread("setter", [=] { choice->event.Set(); });
    }
    world.Thread("releaser", [=] { choice->semaphore.Release(); });
    scenario.AtEnd([=] {
      if (choice->semaphore.TryAcquire()) ++choice->taken;
      MODEL_CHECK(choice->taken == 1, "the unit is lost, or there are two");
      delete choice;
    });
  });
}

TEST(CancelModel, OneOfTwoIsTaken) {
  Choose({.name = "select: two at once", .preemptions = 2, .weak_choices = 1}, /*cancelled=*/false);
}

// SE1: it comes between the selection's first look and its entry.
TEST(CancelModel, AUnitIsNotWaitedFor) {
  Explore({.name = "select: a unit", .preemptions = 3, .weak_choices = 1}, [](model::Scenario&, FiberWorld& world) {
    auto* choice = new Choice;
    world.Fiber("fiber", Timers::kNo, [=] {
      MODEL_CHECK(SelectOne(choice) == 1, "the event is not set");
      delete choice;
    });
    world.Thread("releaser", [=] { choice->semaphore.Release(); });
  });
}

TEST(CancelModel, ACancelledSelectionTakesOneOrNone) {
  Choose({.name = "select: cancelled", .preemptions = 1, .weak_choices = 1}, /*cancelled=*/true);
}

// --- Condition variables: a notifier that holds the lock hands waiters on to the mutex (FiberMutex::Adopt) ---
//
// No notification is swallowed by a wait that ends as cancelled, and however the wait ends, the lock is held again.

struct Monitor {
  CancelNode scope;
  FiberMutex mutex;
  FiberConditionVariable changed;
  model::Data<int> value{0};  // guarded by mutex: an access without it is a race, which the explorer finds
  model::Data<int> touched{0};

  void Touch() { touched.Write(touched.Read() + 1); }

  void AwaitAndTake() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return value.Read() > 0; });
    value.Write(value.Read() - 1);
  }
};

// False: the wait was cancelled. (The handler of the exception touches nothing of the model's.)
bool WaitOnce(Monitor* monitor, std::unique_lock<FiberMutex>* lock) {
  bool notified = true;
  try {
    monitor->changed.wait(*lock);
  } catch (const FiberCancelled&) {
    notified = false;
  }
  return notified;
}

// Takes nothing: notified, it passes the notification on, as a waiter must whose predicate is false.
void WaitInScope(Monitor* monitor) {
  EnterScope(CurrentFiber(), &monitor->scope);
  {
    std::unique_lock lock(monitor->mutex);
    const bool notified = WaitOnce(monitor, &lock);
    MODEL_CHECK(lock.owns_lock(), "the lock is held again");
    monitor->Touch();
    if (notified) monitor->changed.notify_one();
  }
  LeaveScope(CurrentFiber(), &monitor->scope);
}

// `notify`: notify_one or notify_all.
void NotifyBesideACancellation(const char* name, void (FiberConditionVariable::*notify)()) {
  Explore({.name = name, .preemptions = 2, .weak_choices = 0}, [=](model::Scenario& scenario, FiberWorld& world) {
    auto* monitor = scenario.New<Monitor>("monitor");
    world.Fiber("cancelled", Timers::kNo, [=] { WaitInScope(monitor); });
    world.Fiber("patient", Timers::kNo, [=] { monitor->AwaitAndTake(); });
    world.Fiber("notifier", Timers::kNo, [=] {
      const std::scoped_lock lock(monitor->mutex);
      monitor->value.Write(1);
      monitor->Touch();
      (monitor->changed.*notify)();
    });
    world.Thread("canceller", [=] { Cancel(&monitor->scope); });
  });
}

TEST(CancelModel, ACancelledWaiterTakesNobodysNotification) {
  NotifyBesideACancellation("condition variable: cancelled", &FiberConditionVariable::notify_one);
}

TEST(CancelModel, ACancelledWaiterIsHandedOnWithTheOthers) {
  NotifyBesideACancellation("condition variable: notify_all, cancelled", &FiberConditionVariable::notify_all);
}

// A hook that runs after the wait's own look changes the fiber's bits, and so may hide the canceller's mark from it.
TEST(CancelModel, ACancellationReachesAWaitWhoseYieldHookUsesScopes) {
  using Hook = void (*)(FiberEntity*);
  const Hook hooks[] = {
      [](FiberEntity* self) { SetDeadline(self, self->innermost_scope(), kSoon); },
      [](FiberEntity* self) { SetCoversOwner(self, self->innermost_scope(), true); },
      [](FiberEntity* self) {
        auto* shield = new CancelNode;
        shield->shielded = true;
        EnterScope(self, shield);
        LeaveScope(self, shield);
      },
      [](FiberEntity* self) {
        auto* cancelled = new CancelNode;
        Cancel(cancelled);
        EnterScope(self, cancelled);
        LeaveScope(self, cancelled);
      },
  };
  for (const Hook hook : hooks) {
    Explore({.name = "cancel: yield hook", .preemptions = 2, .weak_choices = 1},
            [=](model::Scenario& scenario, FiberWorld& world) {
              auto* monitor = scenario.New<Monitor>("monitor");
              world.Fiber("fiber", Timers::kNo, [=] {
                EnterScope(CurrentFiber(), &monitor->scope);
                {
                  std::unique_lock lock(monitor->mutex);
                  CurrentFiber()->yield_hook = hook;
                  MODEL_CHECK(!WaitOnce(monitor, &lock), "nobody else ends it");
                }
                LeaveScope(CurrentFiber(), &monitor->scope);
              });
              world.Thread("canceller", [=] { Cancel(&monitor->scope); });
            });
  }
}

// Nobody else: the notification reaches it, or is left over; the canceller is not missed.
TEST(CancelModel, ACancellationReachesAConditionVariable) {
  Explore({.name = "condition variable: only cancelled", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* monitor = scenario.New<Monitor>("monitor");
            world.Fiber("cancelled", Timers::kNo, [=] { WaitInScope(monitor); });
            world.Fiber("notifier", Timers::kNo, [=] {
              const std::scoped_lock lock(monitor->mutex);
              monitor->Touch();
              monitor->changed.notify_one();
            });
            world.Thread("canceller", [=] { Cancel(&monitor->scope); });
          });
}

}  // namespace
}  // namespace weft::synchronization
