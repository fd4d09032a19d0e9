// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A cancellation against a condition variable's notification, through all interleavings: a waiter in a scope that is
// cancelled, one that is not, and a notifier that holds the lock, so that it hands waiters on to the mutex
// (FiberMutex::Adopt). No notification is swallowed by a wait that ends as cancelled, and however the wait ends, the
// lock is held again.
//
// Bounds: four threads are explored with one preemption and sequential consistency, about 5 s each in release. (With
// one weak choice as well it is 23 s, with two preemptions more than minutes: tools/model_campaign.sh.) Three threads
// are explored with two preemptions and one weak choice.
#include <gtest/gtest.h>

#include <mutex>

#include "weft/scheduling_group/fiber/cancel_lock.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

namespace weft {
namespace {

using model::FiberWorld;
using scheduling_group::CurrentFiber;
using Timers = FiberWorld::Timers;

void Explore(const model::Options& options, void (*build)(model::Scenario&, FiberWorld&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    synchronization::model_cancellation_lock = new base::SpinLock;
    scheduling_group::model_cancellers = new base::Atomic<std::uint32_t>(0);
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

struct Shared {
  synchronization::CancelNode scope;
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
bool WaitOnce(Shared* shared, std::unique_lock<FiberMutex>* lock) {
  bool notified = true;
  try {
    shared->changed.wait(*lock);
  } catch (const FiberCancelled&) {
    notified = false;
  }
  return notified;
}

// Takes nothing: notified, it passes the notification on, as a waiter must whose predicate is false.
void WaitInScope(Shared* shared) {
  EnterScope(CurrentFiber(), &shared->scope);
  {
    std::unique_lock lock(shared->mutex);
    const bool notified = WaitOnce(shared, &lock);
    MODEL_CHECK(lock.owns_lock(), "the lock is held again");
    shared->Touch();
    if (notified) shared->changed.notify_one();
  }
  LeaveScope(CurrentFiber(), &shared->scope);
}

TEST(ConditionCancelModel, ACancelledWaiterTakesNobodysNotification) {
  Explore({.name = "condition variable: cancelled", .preemptions = 1, .weak_choices = 0},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* shared = scenario.New<Shared>("shared");
            world.Fiber("cancelled", Timers::kNo, [=] { WaitInScope(shared); });
            world.Fiber("patient", Timers::kNo, [=] { shared->AwaitAndTake(); });
            world.Fiber("notifier", Timers::kNo, [=] {
              const std::scoped_lock lock(shared->mutex);
              shared->value.Write(1);
              shared->Touch();
              shared->changed.notify_one();
            });
            world.Thread("canceller", [=] { Cancel(&shared->scope); });
          });
}

TEST(ConditionCancelModel, ACancelledWaiterIsHandedOnWithTheOthers) {
  Explore({.name = "condition variable: notify_all, cancelled", .preemptions = 1, .weak_choices = 0},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* shared = scenario.New<Shared>("shared");
            world.Fiber("cancelled", Timers::kNo, [=] { WaitInScope(shared); });
            world.Fiber("patient", Timers::kNo, [=] { shared->AwaitAndTake(); });
            world.Fiber("notifier", Timers::kNo, [=] {
              const std::scoped_lock lock(shared->mutex);
              shared->value.Write(1);
              shared->Touch();
              shared->changed.notify_all();
            });
            world.Thread("canceller", [=] { Cancel(&shared->scope); });
          });
}

// Nobody else: the notification reaches it, or is left over; the canceller is not missed.
TEST(ConditionCancelModel, ACancellationReachesTheWait) {
  Explore({.name = "condition variable: only cancelled", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* shared = scenario.New<Shared>("shared");
            world.Fiber("cancelled", Timers::kNo, [=] { WaitInScope(shared); });
            world.Fiber("notifier", Timers::kNo, [=] {
              const std::scoped_lock lock(shared->mutex);
              shared->Touch();
              shared->changed.notify_one();
            });
            world.Thread("canceller", [=] { Cancel(&shared->scope); });
          });
}

}  // namespace
}  // namespace weft
