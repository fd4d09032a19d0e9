// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StartGate (start_when_full.h) through all interleavings: spawners wait at a full queue, a worker pops all of
// it, and a thread refuses. No spawner sleeps for ever (a deadlock), and an admitted one finds capacity.
//
// One stale read in an execution is allowed: a pop may miss a new waiter, all of them may not (GA2).
#include <gtest/gtest.h>

#include "weft/scheduling_group/queue/start_when_full.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr int kCapacity = 4;

struct World {
  StartGate gate;
  base::Atomic<int> queued{kCapacity};
  model::Data<int> written{0};  // before Refuse()

  // By read-modify-writes, which see the newest: no machine misses half a queue of pops.
  bool Full() { return queued.fetch_add(0, std::memory_order_acq_rel) >= kCapacity; }
  bool HalfEmpty() { return queued.fetch_add(0, std::memory_order_acq_rel) <= kCapacity / 2; }

  bool TryPush() {
    int found = queued.load(std::memory_order_relaxed);
    while (found < kCapacity) {
      if (queued.compare_exchange_strong(found, found + 1, std::memory_order_acq_rel, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }
  // True: it pushed. False: refused.
  bool Start() {
    while (gate.WaitForCapacity(Deadline::None(), [this] { return Full(); })) {
      if (TryPush()) return true;
    }
    return false;
  }
  void Pop(int times) {
    for (int i = 0; i < times; ++i) {
      queued.fetch_sub(1, std::memory_order_acq_rel);
      gate.CapacityFreed([this] { return HalfEmpty(); });
    }
  }
};

void Explore(const model::Options& options, void (*build)(model::Scenario&)) {
  const model::Result result = model::Explore(options, build);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(StartGateModel, ASpawnerIsLetInWhenTheQueueIsHalfEmpty) {
  Explore({.name = "start_gate: 1 spawner", .preemptions = 4, .weak_choices = 1}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    scenario.Thread("spawner", [=] { MODEL_CHECK(world->Start(), "nobody has refused"); });
    scenario.Thread("worker", [=] { world->Pop(kCapacity); });
  });
}

TEST(StartGateModel, AllSpawnersAreLetIn) {
  Explore({.name = "start_gate: 2 spawners", .preemptions = 3, .weak_choices = 1}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    for (const char* name : {"spawner", "second spawner"}) {
      scenario.Thread(name, [=] { MODEL_CHECK(world->Start(), "nobody has refused"); });
    }
    scenario.Thread("worker", [=] { world->Pop(kCapacity); });
  });
}

// It returns to a queue that others have filled again, and must be told once more.
TEST(StartGateModel, ASpawnerThatFoundNoCapacityIsToldAgain) {
  Explore({.name = "start_gate: told again", .preemptions = 3, .weak_choices = 1}, [](model::Scenario& scenario) {
    auto* world = scenario.New<World>("world");
    scenario.Thread("spawner", [=] { MODEL_CHECK(world->Start(), "nobody has refused"); });
    scenario.Thread("worker", [=] {
      world->Pop(2);
      world->queued.fetch_add(2, std::memory_order_acq_rel);  // Fibers start fibers.
      world->Pop(kCapacity);
    });
  });
}

TEST(StartGateModel, WhoWaitsIsRefused) {
  Explore({.name = "start_gate: refused", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario) {
            auto* world = scenario.New<World>("world");
            scenario.Thread("spawner", [=] { MODEL_CHECK(!world->Start(), "the queue is full"); });
            scenario.Thread("ender", [=] { world->gate.Refuse(); });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
