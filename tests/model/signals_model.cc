// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSemaphore, and FiberEvent with Reset(), through all interleavings of a few fibers and threads: no unit and no
// signal is lost or had twice, also when waiters time out, and what may be destroyed after a wait may be. The
// scheduler, the timers and the spin lock are those of tests/model/stubs.
#include <gtest/gtest.h>

#include <chrono>

#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_semaphore.h"
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

// --- FiberSemaphore ---

// One unit: a mutex.
struct Guarded {
  FiberSemaphore semaphore{1};
  model::Data<int> entered{0};

  void Enter() {
    semaphore.Acquire();
    Count();
  }
  void EnterIfInTime() {
    if (semaphore.Acquire(kSoon)) Count();
  }

 private:
  void Count() {
    entered.Write(entered.Read() + 1);
    semaphore.Release();
  }
};

Guarded* NewGuarded(model::Scenario& scenario) {
  auto* guarded = new Guarded;
  scenario.Name(guarded, sizeof(*guarded), "guarded");
  scenario.AtEnd([guarded] {
    MODEL_CHECK(guarded->semaphore.TryAcquire(), "the unit is lost");
    MODEL_CHECK(!guarded->semaphore.TryAcquire(), "there is a unit too many");
  });
  return guarded;
}

TEST(FiberSemaphoreModel, TwoFibersAndAThread) {
  Explore({.name = "semaphore: two fibers and a thread", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            for (const char* name : {"fiber 0", "fiber 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Enter(); });
            world.Thread("thread", [=] { guarded->Enter(); });
          });
}

TEST(FiberSemaphoreModel, ATimeOutTakesNobodysUnit) {
  Explore({.name = "semaphore: time-out", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            for (const char* name : {"fiber 0", "fiber 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Enter(); });
            world.Fiber("timed", Timers::kYes, [=] { guarded->EnterIfInTime(); });
          });
}

// One of them is let through by the release, the other one takes what is left.
TEST(FiberSemaphoreModel, WhatWasDoneBeforeAReleaseIsVisibleToAllThatItServes) {
  Explore({.name = "semaphore: one waits, one comes", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberSemaphore semaphore{0};
              model::Data<int> value{0};
              base::Atomic<int> inside{2};
            };
            auto* shared = new Shared;
            for (const char* name : {"fiber 0", "fiber 1"}) {
              world.Fiber(name, Timers::kNo, [=] {
                shared->semaphore.Acquire();
                MODEL_CHECK(shared->value.Read() == 1, "what was done before the release is not visible");
                if (shared->inside.fetch_sub(1, std::memory_order_acq_rel) == 1) delete shared;
              });
            }
            world.Thread("releaser", [=] {
              shared->value.Write(1);
              shared->semaphore.Release(2);
            });
          });
}

// SE3
TEST(FiberSemaphoreModel, WhoHasAcquiredMayDestroyIt) {
  Explore({.name = "semaphore: destroyed", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberSemaphore semaphore{0};
              model::Data<int> value{0};
            };
            auto* shared = new Shared;
            world.Fiber("acquirer", Timers::kNo, [=] {
              shared->semaphore.Acquire();
              shared->semaphore.Acquire();
              MODEL_CHECK(shared->value.Read() == 1, "what was done before the release is not visible");
              delete shared;
            });
            world.Fiber("releaser", Timers::kNo, [=] {
              shared->value.Write(1);
              shared->semaphore.Release(2);
            });
          });
  Explore({.name = "semaphore: destroyed after a time-out", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* semaphore = new FiberSemaphore(0);
            world.Fiber("acquirer", Timers::kYes, [=] {
              if (!semaphore->Acquire(kSoon)) semaphore->Acquire();
              delete semaphore;
            });
            world.Thread("releaser", [=] { semaphore->Release(); });
          });
  Explore({.name = "semaphore: destroyed by the last of two", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberSemaphore semaphore{0};
              base::Atomic<int> inside{2};
              void Leave() {
                if (inside.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
              }
            };
            auto* shared = new Shared;
            world.Fiber("acquirer", Timers::kNo, [=] {
              shared->semaphore.Acquire();
              shared->Leave();
            });
            world.Fiber("timed", Timers::kYes, [=] {
              static_cast<void>(shared->semaphore.Acquire(kSoon));
              shared->Leave();
            });
            world.Thread("releaser", [=] { shared->semaphore.Release(2); });
          });
}

// --- FiberEvent ---

// EV3
TEST(FiberEventModel, ResetLosesNoWork) {
  Explore({.name = "event: reset", .preemptions = 4, .weak_choices = 3}, [](model::Scenario&, FiberWorld& world) {
    struct Shared {
      FiberEvent work_there;
      base::Atomic<int> work{0};
    };
    auto* shared = new Shared;
    world.Fiber("worker", Timers::kNo, [=] {
      for (int done = 0; done < 2;) {
        shared->work_there.Wait();
        shared->work_there.Reset();
        done = shared->work.load(std::memory_order_relaxed);  // An old value, if Reset() does not keep it from that.
      }
    });
    world.Fiber("giver", Timers::kNo, [=] {
      for (int i = 0; i < 2; ++i) {
        shared->work.store(i + 1, std::memory_order_relaxed);
        shared->work_there.Set();
      }
    });
  });
}

TEST(FiberEventModel, ATimeOutAgainstSet) {
  Explore({.name = "event: time-out", .preemptions = 4, .weak_choices = 2}, [](model::Scenario&, FiberWorld& world) {
    auto* event = new FiberEvent;
    world.Fiber("waiter", Timers::kYes, [=] {
      if (!event->Wait(kSoon)) event->Wait();
      delete event;
    });
    world.Thread("setter", [=] { event->Set(); });
  });
}

// EV1. One waits in the word, one in the queue, or both there.
TEST(FiberEventModel, SetLetsAllThrough) {
  Explore({.name = "event: fiber, thread", .preemptions = 3, .weak_choices = 2},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberEvent event;
              base::Atomic<int> left{2};
              model::Data<int> value{0};
              void Wait() {
                event.Wait();
                MODEL_CHECK(value.Read() == 1, "what was done before Set() is not visible");
                if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
              }
            };
            auto* shared = new Shared;
            world.Fiber("fiber", Timers::kNo, [=] { shared->Wait(); });
            world.Thread("thread", [=] { shared->Wait(); });
            world.Thread("setter", [=] {
              shared->event.Reset();  // Of what is not set: nothing happens.
              shared->value.Write(1);
              shared->event.Set();
            });
          });
  Explore({.name = "event: with and without a deadline", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberEvent event;
              base::Atomic<int> left{2};
              void Leave() {
                if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
              }
            };
            auto* shared = new Shared;
            world.Fiber("timed", Timers::kYes, [=] {
              if (!shared->event.Wait(kSoon)) shared->event.Wait();
              shared->Leave();
            });
            world.Fiber("fiber", Timers::kNo, [=] {
              shared->event.Wait();
              shared->Leave();
            });
            world.Thread("setter", [=] { shared->event.Set(); });
          });
}

}  // namespace
}  // namespace weft
