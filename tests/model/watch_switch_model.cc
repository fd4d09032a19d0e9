// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/watch/watchdog.h through all interleavings: a Watchdog that turns itself off, and workers that
// sleep and get up. The Watchdog does not sleep for ever while a worker is up for good (a deadlock).
#include <gtest/gtest.h>

#include <array>

#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr int kWorkers = 2;

struct World {
  WatchSwitch watchdog;
  std::array<base::Atomic<bool>, kWorkers> asleep;

  void FallAsleep(int worker) { asleep[worker].store(true, std::memory_order_relaxed); }
  void GetUp(int worker) {
    asleep[worker].store(false, std::memory_order_relaxed);
    watchdog.GotUp([] {});
  }
  bool AllSleep() {
    for (base::Atomic<bool>& one : asleep) {
      if (!one.load(std::memory_order_relaxed)) return false;
    }
    return true;
  }
  // Until it was off and was turned on again, or found a worker that is up.
  void Watch(int times) {
    const auto sleep = [](base::Parker* parker) { parker->Park(); };
    for (int i = 0; i < times; ++i) watchdog.Off([this] { return AllSleep(); }, sleep);
  }
};

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(WatchSwitchModel, AWorkerThatGetsUpIsWatched) {
  Explore({.name = "watch_switch: 1 worker", .preemptions = model::kUnbounded}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    world->FallAsleep(0);
    world->FallAsleep(1);
    scenario.Thread("worker", [=] { world->GetUp(0); });
    scenario.Thread("watchdog", [=] { world->Watch(1); });
  });
}

TEST(WatchSwitchModel, AWorkerThatSleepsAndGetsUpAgainIsWatched) {
  Explore({.name = "watch_switch: sleeps again", .preemptions = 4}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    world->FallAsleep(1);
    scenario.Thread("worker", [=] {
      world->FallAsleep(0);
      world->GetUp(0);
    });
    scenario.Thread("watchdog", [=] { world->Watch(2); });
  });
}

TEST(WatchSwitchModel, TheLastOfTwoThatGetUpIsWatched) {
  Explore({.name = "watch_switch: 2 workers", .preemptions = 4}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    world->FallAsleep(0);
    world->FallAsleep(1);
    scenario.Thread("worker 0", [=] { world->GetUp(0); });
    scenario.Thread("worker 1", [=] { world->GetUp(1); });
    scenario.Thread("watchdog", [=] { world->Watch(2); });
  });
}

TEST(WatchSwitchModel, ATeamThatEndsWakesTheWatchdog) {
  Explore({.name = "watch_switch: the end", .preemptions = model::kUnbounded}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    world->FallAsleep(0);
    world->FallAsleep(1);
    auto* stopping = scenario.New<model::Data<bool>>("stopping", false);
    scenario.Thread("team", [=] {
      stopping->Write(true);
      world->watchdog.Wake([] {});
    });
    scenario.Thread("watchdog", [=] {
      world->Watch(1);
      MODEL_CHECK(stopping->Read(), "it was woken for the end");
    });
  });
}

}  // namespace
}  // namespace weft::scheduling_group
