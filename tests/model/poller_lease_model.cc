// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// io/reactor/poller_lease.h through all interleavings: workers go to sleep, in the poll if it is free, and leave it
// with a fiber that never ends; busy ones poll without waiting; a thread registers a descriptor; the watchdog runs. At
// most one worker polls at a time (PL1). When nothing moves any more and a descriptor is registered, no worker sleeps
// while nobody polls (PL2: the watchdog has woken it), and the watchdog is off (PL3).
//
// Preemptions are bounded everywhere: a watchdog that fires each time just before its worker is in the poll again would
// wake it for ever.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>

#include "weft/io/reactor/poller_lease.h"
#include "weft/tests/testing/interleave.h"

namespace weft::io {
namespace {

constexpr unsigned kMaxWorkers = 3;

struct World {
  PollerLease lease;
  base::Atomic<std::uint32_t> sleepers{0};  // as IdleWorkers: bit by bit
  std::array<model::Parker, kMaxWorkers> parkers;
  base::Atomic<std::uint32_t> has_event{0};  // a worker was woken by an event, and is busy for ever then; bit by bit
  model::Parker timer;                       // the watchdog's
  model::Data<int> engine{0};                // the holder's alone

  auto SomebodySleeps() {
    return [this] { return sleepers.load(std::memory_order_relaxed) != 0; };
  }
  bool TryEnter() {
    if (!lease.TryEnter()) return false;
    engine.Write(1);  // PL1: two at once, or one that does not see the last, are a race.
    return true;
  }
  void Leave() {
    MODEL_CHECK(engine.Read() == 1, "PL1");
    engine.Write(0);
    if (lease.Leave(SomebodySleeps())) timer.Unpark();
  }
  void Register() {
    if (lease.Registered(SomebodySleeps())) timer.Unpark();
  }

  // As Worker::Sleep(), after PrepareSleep(). A wait in the poll is a wait on the parker here: an event is for one
  // worker.
  void Sleep(unsigned worker) {
    const bool in_poll = TryEnter();
    parkers[worker].Park();
    sleepers.fetch_and(~(1u << worker), std::memory_order_relaxed);
    if (in_poll) Leave();
  }
  void PrepareSleep(unsigned worker) {
    sleepers.fetch_or(1u << worker, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // As IdleWorkers::PrepareSleep().
  }
  // A worker that is woken by the watchdog looks once, as a spinner does, and goes to sleep again.
  void Work(unsigned worker) {
    for (;;) {
      PrepareSleep(worker);
      Sleep(worker);
      if ((has_event.load(std::memory_order_relaxed) & (1u << worker)) != 0) return;
      PollOnce();
    }
  }
  void PollOnce() {
    if (TryEnter()) Leave();
  }
  void Event(unsigned worker) {
    has_event.fetch_or(1u << worker, std::memory_order_relaxed);
    parkers[worker].Unpark();
  }
  // As SchedulingGroup::WakeToPoll().
  void WakeOne() {
    base::ThreadFence(std::memory_order_seq_cst);
    const std::uint32_t found = sleepers.load(std::memory_order_relaxed);
    if (found == 0) return;
    const auto worker = static_cast<unsigned>(std::countr_zero(found));
    if ((sleepers.fetch_and(~(1u << worker), std::memory_order_relaxed) & (1u << worker)) != 0)
      parkers[worker].Unpark();
  }
  // As EpollReactor::OnWatchdog().
  void Watchdog() {
    for (;;) {
      timer.Park();
      switch (lease.OnWatchdog(SomebodySleeps())) {
        case PollerLease::WatchdogResult::kOff:
          continue;
        case PollerLease::WatchdogResult::kGoOn:
          break;
        case PollerLease::WatchdogResult::kWakeAndGoOn:
          WakeOne();
          break;
      }
      timer.Unpark();
    }
  }
};

World* NewWorld(model::Scenario& scenario, bool registered) {
  auto* world = scenario.New<World>("world");
  scenario.Name(&world->lease, sizeof(world->lease), "lease");
  if (registered) static_cast<void>(world->lease.Registered([] { return false; }));
  scenario.Background("watchdog", [=] { world->Watchdog(); });
  scenario.AtEnd([=] {
    MODEL_CHECK(world->lease.waited_for() != 0, "the scenario registers something");
    const bool sleeps = world->sleepers.load(std::memory_order_relaxed) != 0;
    MODEL_CHECK(!sleeps || world->lease.held(), "a worker sleeps, and nobody polls (PL2)");
    MODEL_CHECK(!world->lease.watchdog_on(), "the watchdog is on where nothing moves (PL3)");
  });
  return world;
}

void Worker(model::Scenario& scenario, World* world, unsigned worker, bool asleep = false) {
  static constexpr const char* kNames[kMaxWorkers] = {"worker 0", "worker 1", "worker 2"};
  if (asleep) world->sleepers.fetch_or(1u << worker, std::memory_order_relaxed);
  scenario.Background(kNames[worker], [=] {
    if (asleep) {  // On its parker.
      world->parkers[worker].Park();
      world->sleepers.fetch_and(~(1u << worker), std::memory_order_relaxed);
    }
    world->Work(worker);
  });
}

#define EXPECT_PROVEN(...)                                    \
  do {                                                        \
    const model::Result result = model::Explore(__VA_ARGS__); \
    EXPECT_TRUE(result.passed) << result.report;              \
  } while (false)

TEST(PollerLeaseModel, TheFirstRegistrationIsPolledFor) {
  EXPECT_PROVEN({.name = "poller_lease: registered while one goes to sleep", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, false);
                  Worker(scenario, world, 0);
                  scenario.Thread("registers", [=] { world->Register(); });
                });
  EXPECT_PROVEN({.name = "poller_lease: registered while one sleeps", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, false);
                  Worker(scenario, world, 0, /*asleep=*/true);
                  scenario.Thread("registers", [=] { world->Register(); });
                });
}

TEST(PollerLeaseModel, TheHolderLeavesWhileAnotherGoesToSleep) {
  EXPECT_PROVEN({.name = "poller_lease: leaves, 1 goes to sleep", .preemptions = 3, .weak_choices = 2},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("leaves, busy for ever", [=] { world->PollOnce(); });
                  Worker(scenario, world, 0);
                });
  EXPECT_PROVEN({.name = "poller_lease: event, 1 goes to sleep", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  Worker(scenario, world, 0);
                  Worker(scenario, world, 1);
                  scenario.Thread("kernel", [=] { world->Event(0); });
                });
}

TEST(PollerLeaseModel, ABusyWorkerPollsForAMoment) {
  EXPECT_PROVEN({.name = "poller_lease: 2 looks, 1 goes to sleep", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("busy", [=] {
                    world->PollOnce();
                    world->PollOnce();
                  });
                  Worker(scenario, world, 0);
                });
  EXPECT_PROVEN({.name = "poller_lease: 2 look, 1 sleeps", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("busy 1", [=] { world->PollOnce(); });
                  scenario.Thread("busy 2", [=] { world->PollOnce(); });
                  Worker(scenario, world, 0, /*asleep=*/true);
                });
}

// The watchdog turns itself off because a worker polls, which leaves just then.
TEST(PollerLeaseModel, TheWatchdogStopsWhileTheHolderLeaves) {
  EXPECT_PROVEN({.name = "poller_lease: watchdog goes out, leaves, 1 sleeps", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  // It polls, and the watchdog is on since it had left before.
                  static_cast<void>(world->lease.TryEnter());
                  static_cast<void>(world->lease.Leave([] { return true; }));
                  world->timer.Unpark();
                  world->TryEnter();
                  scenario.Thread("leaves, busy for ever", [=] { world->Leave(); });
                  Worker(scenario, world, 0, /*asleep=*/true);
                });
  EXPECT_PROVEN({.name = "poller_lease: watchdog goes out, goes to sleep", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  static_cast<void>(world->lease.TryEnter());
                  static_cast<void>(world->lease.Leave([] { return true; }));
                  world->timer.Unpark();
                  scenario.Thread("busy", [=] { world->PollOnce(); });
                  Worker(scenario, world, 0);
                });
}

TEST(PollerLeaseModel, AllOfIt) {
  EXPECT_PROVEN({.name = "poller_lease: registers, event, looks, 2 workers", .preemptions = 1, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, false);
                  Worker(scenario, world, 0);
                  Worker(scenario, world, 1, /*asleep=*/true);
                  scenario.Thread("registers", [=] { world->Register(); });
                  scenario.Thread("kernel", [=] { world->Event(0); });
                });
}

}  // namespace
}  // namespace weft::io
