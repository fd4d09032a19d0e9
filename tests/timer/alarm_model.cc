// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// timer/worker/alarm.h and timer/queue/shard_tick.h through all interleavings: threads that arm timers, or ask for a
// trim, the timer thread, which takes whatever it sees and goes to sleep, and a worker that keeps the first timers of
// its shard, fires what is due of them, and gives up the rest. When nothing moves any more nothing may be left (no lost
// wake-up).
//
// Time is not modelled: what the timer thread sees is due, and a sleep with a time-out may end at any moment. So a
// timer counts as lost only if the thread sleeps for ever with the timer armed, which is what a wake-up that goes
// missing comes to.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>

#include "weft/base/thread/atomic.h"
#include "weft/tests/testing/interleave.h"
#include "weft/timer/queue/shard_tick.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/worker/alarm.h"

namespace weft::timer {
namespace {

constexpr int kMaxShards = 2;

// Shards without locks and queues: one timer each, held by next() itself.
struct Shards {
  Alarm alarm;
  std::array<base::Atomic<Tick>, kMaxShards> next{kNever, kNever};
  std::array<int, kMaxShards> fired{};
  base::Parker own_parker;

  // As TimerShard::Arm().
  void Arm(int shard, Tick tick) {
    next[shard].store(tick, std::memory_order_relaxed);
    alarm.Announce(tick);
  }

  Tick Earliest(int shards) const {
    Tick earliest = kNever;
    for (int i = 0; i < shards; ++i) earliest = std::min(earliest, next[i].load(std::memory_order_relaxed));
    return earliest;
  }

  // As TimerWorker::ThreadMain(); elsewhere: as a FiberLoop, which sleeps on a parker of its own.
  void ThreadMain(int shards, bool elsewhere) {
    for (;;) {
      for (int i = 0; i < shards; ++i) {
        if (next[i].load(std::memory_order_relaxed) == kNever) continue;
        if (next[i].exchange(kNever, std::memory_order_relaxed) == kNever) continue;
        model::Note("fires");
        ++fired[i];
      }
      const auto look = [this, shards] { return Earliest(shards); };
      if (!elsewhere) {
        alarm.Sleep(look);
        continue;
      }
      const Tick until = alarm.SleepElsewhere(look);
      if (until == kNever) {
        own_parker.Park();
      } else {
        (void)own_parker.ParkUntil(BeginOfTick(until));
      }
      alarm.WakeUp();
    }
  }
};

void ArmersAndThread(model::Scenario& scenario, int armers, bool later_first, bool elsewhere = false) {
  auto* shards = scenario.New<Shards>("shards");
  if (elsewhere) {
    shards->alarm.SleepsElsewhere([](void* parker) noexcept { (void)static_cast<base::Parker*>(parker)->Unpark(); },
                                  &shards->own_parker);
  }
  scenario.Background("timer thread", [=] { shards->ThreadMain(armers, elsewhere); });
  static constexpr const char* kNames[kMaxShards] = {"armer 0", "armer 1"};
  for (int i = 0; i < armers; ++i) {
    const Tick tick = later_first ? 100 - static_cast<Tick>(i) : 100 + static_cast<Tick>(i);
    scenario.Thread(kNames[i], [=] { shards->Arm(i, tick); });
  }
  scenario.AtEnd([=] {
    for (int i = 0; i < armers; ++i) MODEL_CHECK(shards->fired[i] == 1, "a timer is lost: the thread sleeps for good");
  });
}

TEST(AlarmModel, OneArmer) {
  const model::Result result =
      model::Explore({.name = "alarm: 1 armer", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) { ArmersAndThread(scenario, 1, true); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(AlarmModel, OneArmerAndAThreadThatSleepsElsewhere) {
  const model::Result result =
      model::Explore({.name = "alarm: 1 armer, elsewhere", .preemptions = model::kUnbounded, .weak_choices = 4},
                     [](model::Scenario& scenario) { ArmersAndThread(scenario, 1, true, true); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(AlarmModel, TwoArmersTheLaterFirst) {
  const model::Result result =
      model::Explore({.name = "alarm: 2 armers, ticks 100 and 99", .preemptions = 3, .weak_choices = 2},
                     [](model::Scenario& scenario) { ArmersAndThread(scenario, 2, true); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(AlarmModel, TwoArmersTheEarlierFirst) {
  const model::Result result =
      model::Explore({.name = "alarm: 2 armers, ticks 100 and 101", .preemptions = 3, .weak_choices = 2},
                     [](model::Scenario& scenario) { ArmersAndThread(scenario, 2, false); });
  EXPECT_TRUE(result.passed) << result.report;
}

// --- A worker that keeps timers: shard_tick.h, and KT1 in scheduling_group/idle/kept_timers.h ---

// A shard of at most two timers, which has a worker.
struct WorkersShard {
  Alarm alarm;
  base::Atomic<bool> locked{false};
  ShardTick tick;  // under the lock, and so the next two
  std::array<Tick, 2> queue{kNever, kNever};
  std::array<bool, 2> kept{};  // the worker has kept it
  std::array<int, 2> fired{};
  base::Parker parker;  // the worker's

  void Lock() {
    while (locked.exchange(true, std::memory_order_acquire)) model::SpinHint();
  }
  void Unlock() { locked.store(false, std::memory_order_release); }

  Tick Needs() const { return std::min(queue[0], queue[1]); }
  void FireBefore(Tick end, bool by_worker) {
    for (int i = 0; i < 2; ++i) {
      if (queue[i] >= end) continue;
      model::Note("fires");
      MODEL_CHECK(kept[i] || !by_worker, "the worker takes a timer of the thread's");
      ++fired[i];
      queue[i] = kNever;
    }
  }

  // As TimerShard::Arm().
  void Arm(int timer, Tick at) {
    Lock();
    queue[timer] = at;
    const bool announce = tick.Lower(at);
    Unlock();
    if (announce) alarm.Announce(at);
  }

  // As TimerShard::ArmBeforePark(). True: the worker keeps timers.
  bool ArmBeforePark(int timer, Tick at) {
    Lock();
    queue[timer] = at;
    kept[timer] = tick.Keep(at);
    const bool keeps = kept[timer];
    Unlock();
    return keeps;
  }

  // As TimerShard::FireAndGiveUp(); with the epoch, as GiveUp().
  void FireAndGiveUp(Tick now) {
    Lock();
    FireBefore(tick.EndOfKept(now), /*by_worker=*/true);
    const bool announce = tick.GiveUp(Needs());
    const Tick next = tick.next();
    Unlock();
    if (announce) alarm.Announce(next);
  }

  // As TimerWorker::ThreadMain().
  void ThreadMain() {
    for (;;) {
      if (tick.next() != kNever) {
        Lock();
        FireBefore(kNever, /*by_worker=*/false);
        tick.Set(Needs());
        Unlock();
      }
      alarm.Sleep([this] { return tick.next(); });
    }
  }
};

enum class WorkerThen { kIsBusy, kIsClaimed, kSleeps };

constexpr Tick kEpoch = 0;    // Nothing is due.
constexpr Tick kLate = 1000;  // All is.

// A fiber of the worker sets the first timer and parks; then the worker is busy for ever, or sleeps until it is claimed
// before it is due, or longer than that. A thread sets the second one.
void WorkerAndArmer(model::Scenario& scenario, WorkerThen then, Tick of_thread) {
  auto* shard = scenario.New<WorkersShard>("shard");
  scenario.Background("timer thread", [=] { shard->ThreadMain(); });
  scenario.Thread("worker", [=] {
    if (!shard->ArmBeforePark(0, 100)) return;
    if (then != WorkerThen::kIsBusy) (void)shard->parker.ParkUntil(BeginOfTick(100));
    shard->FireAndGiveUp(then == WorkerThen::kSleeps ? kLate : kEpoch);
  });
  scenario.Thread("armer", [=] {
    shard->Arm(1, of_thread);
    if (then == WorkerThen::kIsClaimed) (void)shard->parker.Unpark();
  });
  scenario.AtEnd([=] {
    MODEL_CHECK(shard->fired[0] == 1, "the worker's timer is lost");
    MODEL_CHECK(shard->fired[1] == 1, "the other thread's timer is lost");
  });
}

// Then its fiber, or another one of the worker, sets one more.
void WorkerThatSetsTwo(model::Scenario& scenario, Tick second) {
  auto* shard = scenario.New<WorkersShard>("shard");
  scenario.Background("timer thread", [=] { shard->ThreadMain(); });
  scenario.Thread("worker", [=] {
    const bool first = shard->ArmBeforePark(0, 100);
    if (first) shard->FireAndGiveUp(kEpoch);  // It enters the fiber that sets the second one.
    if (shard->ArmBeforePark(1, second)) shard->FireAndGiveUp(kEpoch);
  });
  scenario.AtEnd([=] { MODEL_CHECK(shard->fired[0] == 1 && shard->fired[1] == 1, "a timer of the worker is lost"); });
}

void ExpectNoneLost(const char* name, const std::function<void(model::Scenario&)>& body) {
  const model::Result result = model::Explore({.name = name, .preemptions = 2, .weak_choices = 2}, body);
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(KeptTimersModel, AWorkerThatIsBusyGivesThemUp) {
  ExpectNoneLost("kept: busy, a later one", [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kIsBusy, 200); });
  ExpectNoneLost("kept: busy, a sooner one", [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kIsBusy, 50); });
}

TEST(KeptTimersModel, AWorkerThatSleepsFiresThem) {
  ExpectNoneLost("kept: asleep, a later one",
                 [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kSleeps, 200); });
  ExpectNoneLost("kept: asleep, a sooner one",
                 [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kSleeps, 50); });
}

TEST(KeptTimersModel, AWorkerThatIsClaimedGivesUpWhatIsNotDue) {
  ExpectNoneLost("kept: claimed, a later one",
                 [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kIsClaimed, 200); });
  ExpectNoneLost("kept: claimed, a sooner one",
                 [](auto& scenario) { WorkerAndArmer(scenario, WorkerThen::kIsClaimed, 50); });
}

// SHT4
TEST(KeptTimersModel, WhatAFormerWorkerHasLeftHidesNone) {
  ExpectNoneLost("kept: left behind", [](auto& scenario) {
    auto* shard = scenario.template New<WorkersShard>("shard");
    (void)shard->tick.Keep(50);
    scenario.Background("timer thread", [=] { shard->ThreadMain(); });
    scenario.Thread("worker", [=] {
      if (shard->ArmBeforePark(0, 100)) shard->FireAndGiveUp(kEpoch);
    });
    scenario.AtEnd([=] { MODEL_CHECK(shard->fired[0] == 1, "neither kept nor told"); });
  });
}

TEST(KeptTimersModel, OneIsLeftToTheThreadThatIsToldOfASoonerOne) {
  ExpectNoneLost("kept: two, the later one second", [](auto& scenario) { WorkerThatSetsTwo(scenario, 200); });
  ExpectNoneLost("kept: two, the sooner one second", [](auto& scenario) { WorkerThatSetsTwo(scenario, 50); });
}

// Each requester makes some memory unneeded, then asks for a trim.
struct Memory {
  Alarm alarm;
  Housekeeping housekeeping{&alarm};
  std::array<base::Atomic<int>, kMaxShards> unneeded{0, 0};

  void ThreadMain(int requesters) {
    for (;;) {
      const Tick due = housekeeping.next();
      if (due != kNever) {
        housekeeping.RunIfDue(due, [&] {
          for (int i = 0; i < requesters; ++i) unneeded[i].store(0, std::memory_order_relaxed);
          return 0;
        });
      }
      alarm.Sleep([this] { return housekeeping.next(); });
    }
  }
};

void RequestersAndThread(model::Scenario& scenario, int requesters, int postpone_at_most) {
  auto* memory = scenario.New<Memory>("memory");
  memory->housekeeping.Reset(1000, postpone_at_most);
  scenario.Background("timer thread", [=] { memory->ThreadMain(requesters); });
  static constexpr const char* kNames[kMaxShards] = {"requester 0", "requester 1"};
  for (int i = 0; i < requesters; ++i) {
    scenario.Thread(kNames[i], [=] {
      memory->unneeded[i].store(1, std::memory_order_relaxed);
      memory->housekeeping.Request();
    });
  }
  scenario.AtEnd([=] {
    for (int i = 0; i < requesters; ++i) {
      MODEL_CHECK(memory->unneeded[i].load(std::memory_order_relaxed) == 0,
                  "memory is kept: no trim follows a request");
    }
  });
}

TEST(HousekeepingModel, OneRequester) {
  const model::Result result = model::Explore(
      {.name = "housekeeping: 1 requester", .preemptions = 4, .weak_choices = 2},
      [](model::Scenario& scenario) { RequestersAndThread(scenario, 1, Housekeeping::kPostponeAtMost); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(HousekeepingModel, TwoRequesters) {
  const model::Result result = model::Explore(
      {.name = "housekeeping: 2 requesters", .preemptions = 2, .weak_choices = 1},
      [](model::Scenario& scenario) { RequestersAndThread(scenario, 2, Housekeeping::kPostponeAtMost); });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(HousekeepingModel, TwoRequestersAndATrimThatIsPostponedNoMore) {
  const model::Result result =
      model::Explore({.name = "housekeeping: 2 requesters, no postponing", .preemptions = 3, .weak_choices = 1},
                     [](model::Scenario& scenario) { RequestersAndThread(scenario, 2, 1); });
  EXPECT_TRUE(result.passed) << result.report;
}

}  // namespace
}  // namespace weft::timer
