// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// io/poll_attendance.h through all interleavings: workers that go to sleep, in the poll if nobody is there, and leave
// it with a fiber that never ends; busy ones that look; somebody who registers; the watch. At most one attends at a
// time (PA1). When nothing moves any more and something is waited for, no worker sleeps while nobody attends (PA2: the
// watch has woken it), and the watch is off (PA3).
//
// Preemptions are bounded everywhere: a watch whose time comes each time just before the worker that it has woken is in
// the poll again would wake it for ever.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cstdint>

#include "weft/io/poll_attendance.h"
#include "weft/tests/testing/interleave.h"

namespace weft::io {
namespace {

constexpr unsigned kMaxWorkers = 3;

struct World {
  PollAttendance attendance;
  base::Atomic<std::uint32_t> sleepers{0};  // as IdleWorkers: bit by bit
  std::array<model::Parker, kMaxWorkers> beds;
  base::Atomic<std::uint32_t> has_event{0};  // a worker was woken by an event, and is busy for ever then; bit by bit
  model::Parker timer;                       // the watch's
  model::Data<int> engine{0};                // the attendant's alone

  auto SomebodySleeps() {
    return [this] { return sleepers.load(std::memory_order_relaxed) != 0; };
  }
  bool TryEnter() {
    if (!attendance.TryEnter()) return false;
    engine.Write(1);  // PA1: two at once, or one that does not see the last, are a race.
    return true;
  }
  void Leave() {
    MODEL_CHECK(engine.Read() == 1, "PA1");
    engine.Write(0);
    if (attendance.Leave(SomebodySleeps())) timer.Unpark();
  }
  void Register() {
    if (attendance.Registered(SomebodySleeps())) timer.Unpark();
  }

  // As Worker::Sleep(), after PrepareSleep(). Waits in the poll are waits in the bed here: an event is for one worker.
  void Sleep(unsigned worker) {
    const bool in_poll = TryEnter();
    beds[worker].Park();
    sleepers.fetch_and(~(1u << worker), std::memory_order_relaxed);
    if (in_poll) Leave();
  }
  void PrepareSleep(unsigned worker) {
    sleepers.fetch_or(1u << worker, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // As IdleWorkers::PrepareSleep().
  }
  // A worker that is woken by the watch looks once, as a spinner does, and goes to sleep again.
  void Work(unsigned worker) {
    for (;;) {
      PrepareSleep(worker);
      Sleep(worker);
      if ((has_event.load(std::memory_order_relaxed) & (1u << worker)) != 0) return;
      LookOnce();
    }
  }
  void LookOnce() {
    if (TryEnter()) Leave();
  }
  void Event(unsigned worker) {
    has_event.fetch_or(1u << worker, std::memory_order_relaxed);
    beds[worker].Unpark();
  }
  // As SchedulingGroup::WakeToAttend().
  void WakeOne() {
    base::ThreadFence(std::memory_order_seq_cst);
    const std::uint32_t found = sleepers.load(std::memory_order_relaxed);
    if (found == 0) return;
    const auto worker = static_cast<unsigned>(std::countr_zero(found));
    if ((sleepers.fetch_and(~(1u << worker), std::memory_order_relaxed) & (1u << worker)) != 0) beds[worker].Unpark();
  }
  // As Reactor::OnWatch().
  void Watch() {
    for (;;) {
      timer.Park();
      switch (attendance.OnWatch(SomebodySleeps())) {
        case PollAttendance::WatchResult::kOff:
          continue;
        case PollAttendance::WatchResult::kGoOn:
          break;
        case PollAttendance::WatchResult::kWakeAndGoOn:
          WakeOne();
          break;
      }
      timer.Unpark();
    }
  }
};

World* NewWorld(model::Scenario& scenario, bool registered) {
  auto* world = scenario.New<World>("world");
  scenario.Name(&world->attendance, sizeof(world->attendance), "attendance");
  if (registered) static_cast<void>(world->attendance.Registered([] { return false; }));
  scenario.Background("watch", [=] { world->Watch(); });
  scenario.AtEnd([=] {
    MODEL_CHECK(world->attendance.waited_for() != 0, "the scenario registers something");
    const bool sleeps = world->sleepers.load(std::memory_order_relaxed) != 0;
    MODEL_CHECK(!sleeps || world->attendance.attended(), "a worker sleeps, and nobody polls (PA2)");
    MODEL_CHECK(!world->attendance.watched(), "the watch is on where nothing moves (PA3)");
  });
  return world;
}

void Worker(model::Scenario& scenario, World* world, unsigned worker, bool asleep = false) {
  static constexpr const char* kNames[kMaxWorkers] = {"worker 0", "worker 1", "worker 2"};
  if (asleep) world->sleepers.fetch_or(1u << worker, std::memory_order_relaxed);
  scenario.Background(kNames[worker], [=] {
    if (asleep) {  // In its bed.
      world->beds[worker].Park();
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

TEST(PollAttendanceModel, TheFirstRegistrationIsAttendedTo) {
  EXPECT_PROVEN({.name = "poll_attendance: registered while one goes to sleep", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, false);
                  Worker(scenario, world, 0);
                  scenario.Thread("registers", [=] { world->Register(); });
                });
  EXPECT_PROVEN({.name = "poll_attendance: registered while one sleeps", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, false);
                  Worker(scenario, world, 0, /*asleep=*/true);
                  scenario.Thread("registers", [=] { world->Register(); });
                });
}

TEST(PollAttendanceModel, TheAttendantLeavesWhileAnotherGoesToSleep) {
  EXPECT_PROVEN({.name = "poll_attendance: leaves, 1 goes to sleep", .preemptions = 3, .weak_choices = 2},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("leaves, busy for ever", [=] { world->LookOnce(); });
                  Worker(scenario, world, 0);
                });
  EXPECT_PROVEN({.name = "poll_attendance: event, 1 goes to sleep", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  Worker(scenario, world, 0);
                  Worker(scenario, world, 1);
                  scenario.Thread("kernel", [=] { world->Event(0); });
                });
}

TEST(PollAttendanceModel, ABusyWorkerLooksForAMoment) {
  EXPECT_PROVEN({.name = "poll_attendance: 2 looks, 1 goes to sleep", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("busy", [=] {
                    world->LookOnce();
                    world->LookOnce();
                  });
                  Worker(scenario, world, 0);
                });
  EXPECT_PROVEN({.name = "poll_attendance: 2 look, 1 sleeps", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  scenario.Thread("busy 1", [=] { world->LookOnce(); });
                  scenario.Thread("busy 2", [=] { world->LookOnce(); });
                  Worker(scenario, world, 0, /*asleep=*/true);
                });
}

// The watch goes out because somebody attends, who leaves just then.
TEST(PollAttendanceModel, TheWatchGoesOutWhileTheAttendantLeaves) {
  EXPECT_PROVEN({.name = "poll_attendance: watch goes out, leaves, 1 sleeps", .preemptions = 3, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  // It attends, and the watch is on since it had left before.
                  static_cast<void>(world->attendance.TryEnter());
                  static_cast<void>(world->attendance.Leave([] { return true; }));
                  world->timer.Unpark();
                  world->TryEnter();
                  scenario.Thread("leaves, busy for ever", [=] { world->Leave(); });
                  Worker(scenario, world, 0, /*asleep=*/true);
                });
  EXPECT_PROVEN({.name = "poll_attendance: watch goes out, goes to sleep", .preemptions = 2, .weak_choices = 1},
                [](model::Scenario& scenario) {
                  World* world = NewWorld(scenario, true);
                  static_cast<void>(world->attendance.TryEnter());
                  static_cast<void>(world->attendance.Leave([] { return true; }));
                  world->timer.Unpark();
                  scenario.Thread("busy", [=] { world->LookOnce(); });
                  Worker(scenario, world, 0);
                });
}

TEST(PollAttendanceModel, AllOfIt) {
  EXPECT_PROVEN({.name = "poll_attendance: registers, event, looks, 2 workers", .preemptions = 1, .weak_choices = 1},
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
