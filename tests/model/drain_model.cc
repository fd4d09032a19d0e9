// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DrainWaiter of scheduling_group/group/runtime_end.h through all interleavings: workers count the ends of fibers and
// tell the waiter. It must not sleep for ever when none is left (a deadlock), and must see what the last fibers did.
#include <gtest/gtest.h>

#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

struct World {
  explicit World(int fibers) : alive(fibers) {}
  DrainWaiter waiter;
  base::Atomic<int> alive;
  model::Data<int> done{0};

  void EndFiber() {
    alive.fetch_sub(1, std::memory_order_release);
    waiter.Tell();
  }
  void Wait() {
    MODEL_CHECK(waiter.Wait(Deadline::None(), [this] { return alive.load(std::memory_order_acquire) == 0; }),
                "there is no deadline");
  }
};

TEST(DrainModel, TheWaiterIsToldOfTheLastFiber) {
  const model::Result result =
      model::Explore({.name = "drain: 1 worker", .preemptions = model::kUnbounded, .weak_choices = model::kUnbounded},
                     [](model::Scenario& scenario) {
                       auto* world = scenario.New<World>("world", 1);
                       scenario.Thread("worker", [=] {
                         world->done.Write(1);
                         world->EndFiber();
                       });
                       scenario.Thread("waiter", [=] {
                         world->Wait();
                         MODEL_CHECK(world->done.Read() == 1, "the fiber's work is not seen");
                       });
                     });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(DrainModel, TwoWorkersAndTwoWaits) {
  const model::Result result =
      model::Explore({.name = "drain: 2 workers", .preemptions = 4, .weak_choices = 3}, [](model::Scenario& scenario) {
        auto* world = scenario.New<World>("world", 2);
        scenario.Thread("worker", [=] { world->EndFiber(); });
        scenario.Thread("other", [=] { world->EndFiber(); });
        scenario.Thread("waiter", [=] {
          world->Wait();
          world->Wait();
        });
      });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::scheduling_group
