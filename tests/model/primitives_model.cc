// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberMutex, FiberConditionVariable, FiberLatch and FiberEvent through all interleavings of a few fibers and threads:
// the mutex excludes and forgets nobody, a notification reaches a waiter, and an object may be destroyed after a wait
// that permits it. The scheduler, the timers and the spin lock are those of tests/model/stubs.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/wait/contention.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft {
namespace {

using model::FiberWorld;
using Timers = FiberWorld::Timers;

constexpr std::chrono::hours kSoon{1};  // Time is the model's.

void Explore(const model::Options& options, void (*build)(model::Scenario&, FiberWorld&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

// --- FiberMutex ---

struct Guarded {
  FiberTimedMutex mutex;
  model::Data<int> entered{0};

  void Enter() {
    std::scoped_lock lock(mutex);
    entered.Write(entered.Read() + 1);
  }
  void EnterIfInTime() {
    if (!mutex.try_lock_for(kSoon)) return;
    entered.Write(entered.Read() + 1);
    mutex.unlock();
  }
};

Guarded* NewGuarded(model::Scenario& scenario, int sections) {
  auto* guarded = scenario.New<Guarded>("guarded");
  scenario.Name(&guarded->mutex, sizeof(guarded->mutex), "mutex");
  scenario.Name(&guarded->entered, sizeof(guarded->entered), "entered");
  if (sections != 0) {
    scenario.AtEnd([=] { MODEL_CHECK(guarded->entered.Read() == sections, "each section ran once"); });
  }
  return guarded;
}

TEST(FiberMutexModel, TwoFibers) {
  Explore({.name = "mutex: two fibers", .preemptions = model::kUnbounded, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 4);
            for (const char* name : {"fiber 0", "fiber 1"}) {
              world.Fiber(name, Timers::kNo, [=] {
                guarded->Enter();
                guarded->Enter();
              });
            }
          });
}

TEST(FiberMutexModel, TwoFibersAndAThread) {
  Explore({.name = "mutex: two fibers, one thread", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 3);
            for (const char* name : {"fiber 0", "fiber 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Enter(); });
            world.Thread("thread", [=] { guarded->Enter(); });
          });
}

TEST(FiberMutexModel, AFiberThatTimesOut) {
  Explore({.name = "mutex: time-out", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 0);
            world.Fiber("fiber 0", Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("timed", Timers::kYes, [=] { guarded->EnterIfInTime(); });
          });
}

TEST(FiberMutexModel, AFiberThatTimesOutBesideOneThatDoesNot) {
  Explore({.name = "mutex: time-out, three fibers", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 0);
            world.Fiber("fiber 0", Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("fiber 1", Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("timed", Timers::kYes, [=] { guarded->EnterIfInTime(); });
          });
}

// LC1: by the owner between its claim and its wake only.
TEST(FiberMutexModel, FibersWhoseWaitsAreSamples) {
  synchronization::ContentionSample::each_wait = true;
  Explore({.name = "mutex: samples", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 0);
            world.Fiber("fiber 0", Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("fiber 1", Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("timed", Timers::kYes, [=] { guarded->EnterIfInTime(); });
          });
  synchronization::ContentionSample::each_wait = false;
}

// It has lost, and its time is over: the next in the queue must not wait for it.
TEST(FiberMutexModel, AWokenFiberThatTimesOut) {
  Explore({.name = "mutex: time-out of a woken fiber", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario, 0);
            world.Fiber("owner", Timers::kNo, [=] {
              guarded->Enter();
              guarded->Enter();
            });
            world.Fiber("timed", Timers::kYes, [=] { guarded->EnterIfInTime(); });
            world.Fiber("behind", Timers::kNo, [=] { guarded->Enter(); });
          });
}

// MX5: the last owner may destroy it.
TEST(FiberMutexModel, TheLastOwnerMayDestroyIt) {
  Explore({.name = "mutex: destroyed", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario&, FiberWorld& world) {
            auto* guarded = new Guarded;
            for (const char* name : {"fiber 0", "fiber 1"}) {
              world.Fiber(name, Timers::kNo, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                guarded->mutex.lock();
                const bool last = guarded->entered.Read() == 1;
                guarded->entered.Write(1);
                guarded->mutex.unlock();
                if (last) delete guarded;
              });
            }
          });
}

// --- FiberConditionVariable ---

struct Conditional {
  FiberMutex mutex;
  FiberConditionVariable changed;
  model::Data<int> value{0};

  void Await(int wanted) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return value.Read() >= wanted; });
  }
  void AwaitAndTake() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return value.Read() > 0; });
    value.Write(value.Read() - 1);
  }
  void Put() {
    std::scoped_lock lock(mutex);
    value.Write(value.Read() + 1);
    changed.notify_one();
  }
};

Conditional* NewConditional(model::Scenario& scenario) {
  auto* conditional = scenario.New<Conditional>("conditional");
  scenario.Name(&conditional->mutex, sizeof(conditional->mutex), "mutex");
  scenario.Name(&conditional->changed, sizeof(conditional->changed), "changed");
  scenario.Name(&conditional->value, sizeof(conditional->value), "value");
  return conditional;
}

TEST(FiberConditionVariableModel, NotifyWithTheLock) {
  Explore({.name = "condition variable: with the lock", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario, FiberWorld& world) {
            Conditional* c = NewConditional(scenario);
            world.Fiber("waiter", Timers::kNo, [=] { c->AwaitAndTake(); });
            world.Fiber("notifier", Timers::kNo, [=] { c->Put(); });
          });
}

TEST(FiberConditionVariableModel, NotifyWithoutTheLock) {
  Explore({.name = "condition variable: without the lock", .preemptions = model::kUnbounded, .weak_choices = 4},
          [](model::Scenario& scenario, FiberWorld& world) {
            Conditional* c = NewConditional(scenario);
            world.Fiber("waiter", Timers::kNo, [=] { c->Await(1); });
            world.Fiber("notifier", Timers::kNo, [=] {
              {
                std::scoped_lock lock(c->mutex);
                c->value.Write(1);
              }
              c->changed.notify_one();
            });
          });
}

TEST(FiberConditionVariableModel, NotifyAllMovesTheWaitersToTheMutex) {
  Explore({.name = "condition variable: notify_all", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Conditional* c = NewConditional(scenario);
            world.Fiber("waiter 0", Timers::kNo, [=] { c->Await(1); });
            world.Fiber("waiter 1", Timers::kNo, [=] { c->Await(1); });
            world.Thread("notifier", [=] {
              std::scoped_lock lock(c->mutex);
              c->value.Write(1);
              c->changed.notify_all();
            });
          });
}

TEST(FiberConditionVariableModel, TwoConsumersTwoProducts) {
  Explore({.name = "condition variable: two products", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Conditional* c = NewConditional(scenario);
            world.Fiber("consumer 0", Timers::kNo, [=] { c->AwaitAndTake(); });
            world.Fiber("consumer 1", Timers::kNo, [=] { c->AwaitAndTake(); });
            world.Fiber("producer", Timers::kNo, [=] {
              c->Put();
              c->Put();
            });
          });
}

TEST(FiberConditionVariableModel, ATimeOutTakesNobodysNotification) {
  Explore({.name = "condition variable: time-out", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Conditional* c = NewConditional(scenario);
            world.Fiber("patient", Timers::kNo, [=] { c->AwaitAndTake(); });
            world.Fiber("timed", Timers::kYes, [=] {
              std::unique_lock lock(c->mutex);
              // Takes nothing: notified, it passes the notification on, as a waiter must whose predicate is false.
              if (c->changed.wait_for(lock, kSoon) == std::cv_status::no_timeout) c->changed.notify_one();
            });
            world.Fiber("producer", Timers::kNo, [=] { c->Put(); });
          });
}

// --- FiberLatch, FiberEvent ---

TEST(FiberLatchModel, TheWaiterSeesAllAndMayDestroyIt) {
  Explore({.name = "latch: destroyed", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              FiberLatch latch{2};
              model::Data<int> first{0};
              model::Data<int> second{0};
            };
            auto* shared = new Shared;
            scenario.Name(shared, sizeof(*shared), "shared");
            world.Fiber("first", Timers::kNo, [=] {
              shared->first.Write(1);
              shared->latch.CountDown();
            });
            world.Thread("second", [=] {
              shared->second.Write(1);
              shared->latch.CountDown();
            });
            world.Fiber("waiter", Timers::kNo, [=] {
              shared->latch.Wait();
              MODEL_CHECK(shared->first.Read() == 1 && shared->second.Read() == 1, "sees what was done before");
              delete shared;
            });
          });
}

TEST(FiberLatchModel, TwoWaiters) {
  Explore({.name = "latch: two waiters", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              FiberLatch latch{1};
              model::Data<int> data{0};
            };
            auto* shared = scenario.New<Shared>("shared");
            world.Fiber("counter", Timers::kNo, [=] {
              shared->data.Write(1);
              shared->latch.CountDown();
            });
            world.Fiber("waiter 0", Timers::kNo, [=] {
              shared->latch.Wait();
              shared->data.Read();
            });
            world.Fiber("waiter 1", Timers::kYes, [=] {
              if (shared->latch.Wait(kSoon)) shared->data.Read();
            });
          });
}

TEST(FiberEventModel, TheWaiterSeesAllAndMayDestroyIt) {
  Explore({.name = "event: destroyed", .preemptions = 4, .weak_choices = 2},
          [](model::Scenario& scenario, FiberWorld& world) {
            struct Shared {
              FiberEvent event;
              model::Data<int> data{0};
            };
            auto* shared = new Shared;
            scenario.Name(shared, sizeof(*shared), "shared");
            world.Thread("setter", [=] {
              shared->data.Write(1);
              shared->event.Set();
            });
            world.Fiber("waiter", Timers::kYes, [=] {
              if (!shared->event.Wait(kSoon)) shared->event.Wait();
              MODEL_CHECK(shared->data.Read() == 1, "sees what was done before");
              delete shared;
            });
          });
}

}  // namespace
}  // namespace weft
