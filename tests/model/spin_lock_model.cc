// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// base/thread/spin_lock.{h,cc} through all interleavings, on a modelled futex and with a single turn of spinning: one
// holder at a time, which sees what the former did; nobody waits for ever; a thread that knows that the last section is
// over may destroy the lock.
#include <gtest/gtest.h>

#include "weft/base/thread/spin_lock.h"
#include "weft/tests/testing/interleave.h"

namespace weft::base {
namespace {

struct World {
  SpinLock lock;
  model::Data<int> entered{0};

  void Enter() {
    SpinLockGuard guard(lock);
    entered.Write(entered.Read() + 1);
  }
};

TEST(SpinLockModel, TwoThreads) {
  const model::Result result =
      model::Explore({.name = "spin_lock: two threads", .preemptions = 4, .weak_choices = 2, .spurious_failures = 1},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world");
                       for (const char* name : {"first", "second"}) {
                         scenario.Thread(name, [=] {
                           world->Enter();
                           world->Enter();
                         });
                       }
                       scenario.AtEnd([=] { MODEL_CHECK(world->entered.Read() == 4, "each section ran once"); });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(SpinLockModel, ThreeThreads) {
  const model::Result result = model::Explore(
      {.name = "spin_lock: three threads", .preemptions = 3, .weak_choices = 2}, [](model::Scenario& scenario) {
        auto* world = scenario.New<World>("world");
        for (const char* name : {"first", "second", "third"}) scenario.Thread(name, [=] { world->Enter(); });
        scenario.AtEnd([=] { MODEL_CHECK(world->entered.Read() == 3, "each section ran once"); });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(SpinLockModel, TryLockExcludesToo) {
  const model::Result result =
      model::Explore({.name = "spin_lock: try_lock", .preemptions = model::kUnbounded, .weak_choices = 2},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world");
                       scenario.Thread("first", [=] { world->Enter(); });
                       scenario.Thread("second", [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                         if (!world->lock.try_lock()) return;
                         world->entered.Write(world->entered.Read() + 1);
                         world->lock.unlock();
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

// SL2.
TEST(SpinLockModel, TheLastOneInMayDestroyIt) {
  const model::Result result = model::Explore({.name = "spin_lock: destroyed", .preemptions = 4, .weak_choices = 2},
                                              [](model::Scenario& scenario) {
                                                auto* world = new World;
                                                for (const char* name : {"first", "second"}) {
                                                  scenario.Thread(name, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                                                    world->lock.lock();
                                                    const bool last = world->entered.Read() == 1;
                                                    world->entered.Write(1);
                                                    world->lock.unlock();
                                                    if (last) delete world;
                                                  });
                                                }
                                              });
  EXPECT_TRUE(result.passed) << result.report;
}

// A thread that saw what the holder did, and then sees the lock free, comes after the holder's unlock().
TEST(SpinLockModel, SeenFreeMeansThatTheSectionIsOver) {
  const model::Result result = model::Explore(
      {.name = "spin_lock: is_held", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
      [](model::Scenario& scenario) {
        struct Watched : World {
          Atomic<int> state{0};
        };
        auto* world = new Watched;
        scenario.Thread("holder", [=] {
          SpinLockGuard guard(world->lock);
          world->state.store(1, std::memory_order_release);
          world->entered.Write(1);
        });
        scenario.Thread("watcher", [=] {
          if (world->state.load(std::memory_order_acquire) == 0 || world->lock.is_held()) return;
          MODEL_CHECK(world->entered.Read() == 1, "the section is over");
          delete world;
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::base
