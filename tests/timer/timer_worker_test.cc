// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/worker/timer_worker.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/counters.h"
#include "weft/scheduling_group/idle/idle_workers.h"
#include "weft/scheduling_group/idle/reactor.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/tests/testing/timer_sleep.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/queue/shard_tick.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_queue.h"

#include "testing/group_fixture.h"
#include "testing/manual_clock.h"

namespace weft::timer {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using testing::Countdown;
using testing::ManualClock;
using testing::Scaled;
using testing::TimedGroup;
using testing::TimerSleepUntil;

// Notes when it fires.
struct Probe : WaitTimer {
  Probe() {
    fire = [](TimerNode* node, FireContext*) {
      auto* probe = static_cast<Probe*>(node);
      probe->fired_at = steady_clock::now();
      probe->times.fetch_add(1, std::memory_order_relaxed);
      if (probe->countdown != nullptr) probe->countdown->Done();
    };
  }
  steady_clock::time_point fired_at;
  std::atomic<int> times{0};
  Countdown* countdown = nullptr;
};

Deadline At(ManualClock::TimePoint when) { return Deadline(when); }

// --- Without a thread, on a clock that the test moves ---

class ManualTimerWorker : public ::testing::Test {
 protected:
  TimerWorker::Options MakeOptions() {
    TimerWorker::Options options;
    options.clock = &clock_;
    options.trim = [this] { return trim_left_-- > 0 ? 1u : 0u; };
    return options;
  }

  ManualClock clock_;
  int trim_left_ = -1000;
  TimerWorker timers_{MakeOptions()};
};

TEST_F(ManualTimerWorker, ATimerFiresOnceAtItsDeadlineAndNotBefore) {
  Probe probe;
  const auto deadline = clock_.now() + milliseconds(20);
  timers_.Arm(&probe, At(deadline));
  EXPECT_EQ(timers_.armed(), 1u);
  EXPECT_EQ(timers_.RunDue(), TickOfDeadline(deadline));
  clock_.Set(deadline - std::chrono::nanoseconds(1));
  timers_.RunDue();
  EXPECT_EQ(probe.times, 0);
  clock_.Set(deadline + std::chrono::nanoseconds(1 << kTickShift));
  EXPECT_EQ(timers_.RunDue(), kNever);
  EXPECT_EQ(probe.times, 1);
  EXPECT_EQ(timers_.armed(), 0u);
  EXPECT_FALSE(TimerWorker::Disarm(&probe));
}

TEST_F(ManualTimerWorker, ItCountsHowLateTimersFire) {
  Probe probes[3];
  const auto deadline = clock_.now() + milliseconds(10);
  for (Probe& probe : probes) timers_.Arm(&probe, At(deadline));
  EXPECT_EQ(timers_.counts().set, 3u);
  EXPECT_EQ(timers_.counts().armed, 3u);
  EXPECT_EQ(timers_.counts().lateness.fibers(), 0u);
  clock_.Set(deadline + milliseconds(100));
  timers_.RunDue();
  const scheduling_group::TimerCounts counts = timers_.counts();
  EXPECT_EQ(counts.fired, 3u);
  EXPECT_EQ(counts.armed, 0u);
  EXPECT_EQ(counts.lateness.fibers(), 3u);
  EXPECT_GE(counts.lateness.max(), milliseconds(99));
  EXPECT_LE(counts.lateness.max(), milliseconds(100));
}

TEST_F(ManualTimerWorker, ADisarmedTimerDoesNotFire) {
  Probe probe;
  timers_.Arm(&probe, At(clock_.now() + milliseconds(1)));
  EXPECT_TRUE(TimerWorker::Disarm(&probe));
  EXPECT_FALSE(TimerWorker::Disarm(&probe));
  clock_.Advance(seconds(1));
  timers_.RunDue();
  EXPECT_EQ(probe.times, 0);
}

TEST_F(ManualTimerWorker, ATimerThatWasNeverArmedCanBeDisarmed) {
  Probe probe;
  EXPECT_FALSE(TimerWorker::Disarm(&probe));
}

TEST_F(ManualTimerWorker, ANodeCanBeArmedAgain) {
  Probe probe;
  for (int i = 1; i <= 3; ++i) {
    timers_.Arm(&probe, At(clock_.now() + milliseconds(5)));
    clock_.Advance(milliseconds(6));
    timers_.RunDue();
    EXPECT_EQ(probe.times, i);
  }
}

TEST_F(ManualTimerWorker, ATimerWithoutADeadlineIsArmedAndNeverFires) {
  Probe probe;
  timers_.Arm(&probe, Deadline::None());
  clock_.Advance(std::chrono::hours(24 * 365 * 100));
  timers_.RunDue();
  EXPECT_EQ(probe.times, 0);
  EXPECT_TRUE(TimerWorker::Disarm(&probe));
}

TEST_F(ManualTimerWorker, ADeadlineThatHasPassedFiresAtOnce) {
  Probe probe;
  timers_.Arm(&probe, At(clock_.now() - seconds(1)));
  timers_.RunDue();
  EXPECT_EQ(probe.times, 1);
}

TEST_F(ManualTimerWorker, MoreThanABatchThatIsDueAtOnceFiresCompletely) {
  std::vector<Probe> probes(5 * FireContext::kCapacity + 3);
  for (Probe& probe : probes) timers_.Arm(&probe, At(clock_.now() + seconds(3)));
  clock_.Advance(seconds(4));
  EXPECT_EQ(timers_.RunDue(), kNever);
  for (Probe& probe : probes) ASSERT_EQ(probe.times, 1);
  EXPECT_EQ(timers_.fired(), probes.size());
}

TEST_F(ManualTimerWorker, HousekeepingRunsASecondAfterTheRequestUntilNothingIsLeft) {
  trim_left_ = 2;
  EXPECT_EQ(timers_.RunDue(), kNever);
  timers_.RequestTrim();
  timers_.RequestTrim();
  const Tick next = timers_.RunDue();
  EXPECT_EQ(next, TickOfNow(clock_.now()) + TickOfDeadline(base::Clock::TimePoint(seconds(1))));
  EXPECT_EQ(trim_left_, 2);
  for (int left = 1; left >= 0; --left) {
    clock_.Advance(milliseconds(1001));
    EXPECT_NE(timers_.RunDue(), kNever);
    EXPECT_EQ(trim_left_, left);
  }
  clock_.Advance(milliseconds(1001));
  EXPECT_EQ(timers_.RunDue(), kNever);
  EXPECT_EQ(trim_left_, -1);
}

TEST_F(ManualTimerWorker, StopUnlinksWaitsCountsThemAndTakesNoMore) {
  std::vector<Probe> probes(10);
  for (Probe& probe : probes) timers_.Arm(&probe, At(clock_.now() + seconds(1)));
  EXPECT_EQ(timers_.Stop().waits, probes.size());
  for (Probe& probe : probes) EXPECT_FALSE(probe.linked());
  timers_.Arm(&probes[0], At(clock_.now()));
  EXPECT_FALSE(probes[0].linked());
  EXPECT_FALSE(TimerWorker::Disarm(&probes[0]));
}

// --- With its thread ---

class ThreadedTimerWorker : public ::testing::Test {
 protected:
  ThreadedTimerWorker() { EXPECT_TRUE(timers_.Start()); }

  TimerWorker timers_{TimerWorker::Options()};
};

TEST_F(ThreadedTimerWorker, NeverFiresEarly) {
  std::mt19937_64 random(1);
  const int count = Scaled(5000);
  Countdown done(count);
  std::vector<Probe> probes(static_cast<std::size_t>(count));
  std::vector<steady_clock::time_point> deadlines;
  for (Probe& probe : probes) {
    probe.countdown = &done;
    deadlines.push_back(steady_clock::now() + microseconds(random() % 200000));
    timers_.Arm(&probe, deadlines.back());
  }
  ASSERT_TRUE(done.Wait());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    TimerWorker::Disarm(&probes[i]);  // After this `fire` is over.
    ASSERT_EQ(probes[i].times, 1);
    ASSERT_GE(probes[i].fired_at, deadlines[i]);
  }
}

TEST_F(ThreadedTimerWorker, AnEarlierDeadlineWakesItAndALaterOneDoesNot) {
  Countdown done(1);
  Probe far;
  Probe later;
  Probe soon;
  soon.countdown = &done;
  timers_.Arm(&far, std::chrono::hours(1));
  timers_.Arm(&later, std::chrono::hours(2));
  timers_.Arm(&soon, milliseconds(5));
  ASSERT_TRUE(done.Wait(seconds(30))) << "it slept on, for an hour";
  EXPECT_TRUE(TimerWorker::Disarm(&far));
  EXPECT_TRUE(TimerWorker::Disarm(&later));
}

// Counts wake-ups of the thread, not time: an idle process must be left alone.
TEST_F(ThreadedTimerWorker, AnIdleOneIsNotWokenAndOneTimerFarAheadCostsOneWakeUp) {
  Probe far;
  timers_.Arm(&far, std::chrono::hours(1));
  // One that fires proves that the thread has seen all that came before.
  Countdown done(1);
  Probe probe;
  probe.countdown = &done;
  timers_.Arm(&probe, milliseconds(1));
  ASSERT_TRUE(done.Wait());
  const std::uint64_t before = timers_.wake_ups();
  std::this_thread::sleep_for(milliseconds(300));
  // The one that may be counted is the end of the probe's own.
  EXPECT_LE(timers_.wake_ups(), before + 1);
  EXPECT_TRUE(TimerWorker::Disarm(&far));
}

TEST_F(ThreadedTimerWorker, TimeOutsThatDoNotHappenDoNotWakeIt) {
  Countdown done(1);
  Probe probe;
  probe.countdown = &done;
  timers_.Arm(&probe, milliseconds(1));
  ASSERT_TRUE(done.Wait());
  const std::uint64_t before = timers_.wake_ups();
  WaitTimer node;
  node.fire = [](TimerNode*, FireContext*) { FAIL(); };
  for (int i = 0; i < 100000; ++i) {
    timers_.Arm(&node, std::chrono::minutes(10));
    ASSERT_TRUE(TimerWorker::Disarm(&node));
  }
  // The first one is earlier than what the thread slept for; the others are later than that one.
  EXPECT_LE(timers_.wake_ups(), before + 2);
}

TEST_F(ThreadedTimerWorker, DisarmReturnsOnlyWhenFireIsOver) {
  const int rounds = Scaled(20000);
  int fired = 0;
  for (int i = 0; i < rounds; ++i) {
    struct Checked : WaitTimer {
      int* counter;
      bool alive = true;
    };
    int counter = 0;
    {
      Checked node;
      node.counter = &counter;
      node.fire = [](TimerNode* fired_node, FireContext*) {
        auto* checked = static_cast<Checked*>(fired_node);
        ASSERT_TRUE(checked->alive);
        ++*checked->counter;
      };
      timers_.Arm(&node, microseconds(i % 100));
      if (i % 4 == 0) std::this_thread::sleep_for(microseconds(i % 100));
      const bool prevented = TimerWorker::Disarm(&node);
      // Plain accesses: a `fire` that still ran would be a race.
      ASSERT_EQ(counter, prevented ? 0 : 1);
      node.alive = false;
      fired += counter;
    }
  }
  EXPECT_GT(fired, 0);
}

// Many threads arm and disarm at random while the timers fire.
TEST_F(ThreadedTimerWorker, EachTimerFiresOnceOrIsDisarmed) {
  constexpr int kThreads = 6;
  const int rounds = Scaled(30000);
  std::atomic<std::int64_t> armed{0};
  std::atomic<std::int64_t> fired{0};
  std::atomic<std::int64_t> disarmed{0};
  struct Counted : WaitTimer {
    std::atomic<std::int64_t>* fired;
    std::atomic<bool> has_fired{false};
    bool in_use = false;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(static_cast<std::uint64_t>(t));
      std::vector<Counted> nodes(64);
      for (Counted& node : nodes) {
        node.fired = &fired;
        node.fire = [](TimerNode* fired_node, FireContext*) {
          auto* counted = static_cast<Counted*>(fired_node);
          counted->fired->fetch_add(1, std::memory_order_relaxed);
          counted->has_fired.store(true, std::memory_order_relaxed);
        };
      }
      for (int i = 0; i < rounds; ++i) {
        Counted& node = nodes[random() % nodes.size()];
        if (node.in_use) {
          const bool prevented = TimerWorker::Disarm(&node);
          ASSERT_NE(prevented, node.has_fired.load(std::memory_order_relaxed));
          if (prevented) disarmed.fetch_add(1, std::memory_order_relaxed);
          node.has_fired.store(false, std::memory_order_relaxed);
          node.in_use = false;
        } else {
          timers_.Arm(&node, microseconds(random() % 50));
          armed.fetch_add(1, std::memory_order_relaxed);
          node.in_use = true;
        }
        if (i % 500 == 0) std::this_thread::sleep_for(microseconds(20));  // So that some are due.
      }
      for (Counted& node : nodes) {
        if (node.in_use && TimerWorker::Disarm(&node)) disarmed.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(armed, fired + disarmed);
  EXPECT_GT(fired, 0);
  EXPECT_EQ(timers_.armed(), 0u);
}

// A thread that waits for a timer that another thread arms, each time earlier than anything: a lost wake-up would hang
// it.
TEST_F(ThreadedTimerWorker, NoWakeUpIsLostBetweenArmingAndSleeping) {
  Probe far;
  timers_.Arm(&far, std::chrono::hours(1));
  for (int i = 0; i < Scaled(3000); ++i) {
    Countdown done(1);
    Probe probe;
    probe.countdown = &done;
    timers_.Arm(&probe, microseconds(i % 70));
    ASSERT_TRUE(done.Wait(seconds(30))) << "lost in round " << i;
    TimerWorker::Disarm(&probe);
  }
  EXPECT_TRUE(TimerWorker::Disarm(&far));
}

TEST(TimerWorker, ARuntimeThatIsRestartedUsesTheSameMemory) {
  TimerShard* shard = nullptr;
  for (int i = 0; i < 100; ++i) {
    TimerWorker timers{TimerWorker::Options()};
    ASSERT_TRUE(timers.Start());
    Probe probe;
    timers.Arm(&probe, std::chrono::hours(1));
    if (i == 0) shard = probe.shard;
    EXPECT_EQ(probe.shard, shard);
    EXPECT_EQ(timers.Stop().waits, 1u);
  }
}

// --- Fibers ---

class TimedGroupTest : public ::testing::TestWithParam<unsigned> {};

TEST_P(TimedGroupTest, EachGroupFindsItsTimerWorker) {
  TimedGroup group(GetParam());
  EXPECT_EQ(TimerWorker::Of(&group.group()), &group.timers());
}

TEST_P(TimedGroupTest, AFiberSleepsUntilItsDeadlineAndNotLess) {
  TimedGroup group(GetParam());
  group.Run([] {
    for (int i = 0; i < 20; ++i) {
      const Deadline deadline = microseconds(500 * i);
      testing::TimerSleepUntil(deadline);
      EXPECT_GE(steady_clock::now(), deadline.time_point());
    }
  });
}

TEST_P(TimedGroupTest, AHundredThousandSleepersAllWakeUp) {
  TimedGroup group(GetParam());
  const int count = Scaled(100000);
  std::vector<std::int64_t> late_ns(static_cast<std::size_t>(count));
  Countdown done(count);
  group.Run([&] {
    for (std::int64_t& late : late_ns) {
      group.Start([&late, &done] {
        const Deadline deadline = milliseconds(100);
        testing::TimerSleepUntil(deadline);
        late = (steady_clock::now() - deadline.time_point()).count();
        done.Done();
      });
    }
  });
  ASSERT_TRUE(done.Wait());
  EXPECT_GE(*std::min_element(late_ns.begin(), late_ns.end()), 0) << "early";
}

TEST_P(TimedGroupTest, FibersThatYieldAllTheTimeDoNotStarveTimers) {
  TimedGroup group(GetParam());
  std::atomic<bool> stop{false};
  const unsigned yielders = 8 * GetParam();
  Countdown all_done(static_cast<std::ptrdiff_t>(yielders) + 80);
  std::atomic<int> sleeps_left{80};
  for (unsigned i = 0; i < yielders; ++i) {
    group.Start([&] {
      while (!stop.load(std::memory_order_relaxed)) scheduling_group::YieldCurrentFiber();
      all_done.Done();
    });
  }
  for (int i = 0; i < 80; ++i) {
    group.Start([&] {
      testing::TimerSleepUntil(milliseconds(10));
      if (sleeps_left.fetch_sub(1) == 1) stop = true;
      all_done.Done();
    });
  }
  EXPECT_TRUE(all_done.Wait()) << sleeps_left << " of 80 sleeps are not over";
}

INSTANTIATE_TEST_SUITE_P(Workers, TimedGroupTest, ::testing::Values(1u, 2u, 4u, 8u, 64u));

// --- How the kernel schedules it ---

struct KernelSchedule {  // sched_attr
  std::uint32_t size = sizeof(KernelSchedule);
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = 0;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};

KernelSchedule ScheduleOfThisThread() {
  KernelSchedule schedule;
  EXPECT_EQ(syscall(SYS_sched_getattr, 0, &schedule, sizeof(schedule), 0), 0);
  return schedule;
}

TEST(TimerWorkerThread, HasShortTimeSlicesAndItsCreatorsNiceness) {
  std::thread creator([] {
    ASSERT_EQ(setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + 1), 0);  // Of this thread only.
    const KernelSchedule own = ScheduleOfThisThread();
    struct Asker : WaitTimer {
      KernelSchedule schedule;
      Countdown done{1};
    } asker;
    asker.fire = [](TimerNode* node, FireContext*) {
      auto* self = static_cast<Asker*>(node);
      self->schedule = ScheduleOfThisThread();
      self->done.Done();
    };
    TimerWorker timers({});
    ASSERT_TRUE(timers.Start());
    timers.Arm(&asker, milliseconds(0));
    ASSERT_TRUE(asker.done.Wait());
    EXPECT_EQ(asker.schedule.nice, own.nice);
    EXPECT_EQ(asker.schedule.policy, own.policy);
    // Before Linux 6.12 there are no slices to ask for, and 0 is what it says of them.
    if (own.runtime != 0) {
      EXPECT_LT(asker.schedule.runtime, own.runtime);
    }
  });
  creator.join();
}

// --- Workers that keep their timers: scheduling_group/idle/kept_timers.h ---

TEST(ShardTick, IsToldOfATimerOrKeepsIt) {
  ShardTick tick;
  EXPECT_TRUE(tick.Keep(100));
  EXPECT_EQ(tick.first(), 100u);
  EXPECT_EQ(tick.next(), kNever);
  EXPECT_EQ(tick.EndOfKept(99), 100u);
  EXPECT_TRUE(tick.Lower(50));
  EXPECT_EQ(tick.EndOfKept(99), 50u);
  EXPECT_FALSE(tick.Keep(60));
  EXPECT_FALSE(tick.GiveUp(50));
  EXPECT_EQ(tick.kept(), kNever);
}

TEST(ShardTick, ThatAWorkerHasLeftBehindHidesNoTimer) {
  ShardTick tick;
  EXPECT_TRUE(tick.Keep(100));
  EXPECT_TRUE(tick.Keep(200));
  EXPECT_TRUE(tick.GiveUp(200));
  EXPECT_EQ(tick.next(), 200u);
}

TEST(ShardTick, OfAnEmptyQueueKeepsNone) {
  ShardTick tick;
  EXPECT_TRUE(tick.Keep(100));
  EXPECT_TRUE(tick.Lower(50));
  tick.Reset();
  EXPECT_EQ(tick.kept(), kNever);
  EXPECT_EQ(tick.next(), kNever);
}

Deadline FromNow(microseconds duration) { return Deadline(steady_clock::now() + duration); }

TEST(KeptTimers, AreFiredByTheWorker) {
  TimedGroup group(1);
  group.Run([&group] {
    while (group.timers().fired_by_workers() < 10) TimerSleepUntil(FromNow(microseconds(500)));
  });
  const scheduling_group::TimerCounts counts = group.timers().counts();
  EXPECT_GE(counts.fired, 10u);
  EXPECT_EQ(counts.set, counts.fired);
  EXPECT_EQ(counts.lateness.fibers(), counts.fired);
}

TEST(KeptTimers, LeaveTheWorkersTimerSlackAsItWas) {
  TimedGroup group(1);
  group.Run([&group] {
    const int slack = prctl(PR_GET_TIMERSLACK);
    while (group.timers().fired_by_workers() < 3) TimerSleepUntil(FromNow(microseconds(500)));
    EXPECT_EQ(prctl(PR_GET_TIMERSLACK), slack);
  });
}

// The worker is claimed while it sleeps, and busy from then on: the timer thread fires what it has given up.
TEST(KeptTimers, AreTheThreadsWhenTheWorkerIsBusy) {
  TimedGroup group(1);
  for (int round = Scaled(300); round > 0; --round) {
    const std::uint64_t before = group.timers().fired();
    std::atomic<bool> sets_it{false};
    group.Start([&sets_it] {
      sets_it.store(true);
      TimerSleepUntil(FromNow(microseconds(300)));
    });
    while (!sets_it.load()) std::this_thread::yield();
    group.Run([&] {
      while (group.timers().fired() == before) base::CpuRelax();
    });
  }
}

// Nothing is ready while the fiber parks: its worker finds another one while it spins.
class WakesInSpin final : public scheduling_group::Reactor {
 public:
  void TryPoll() override {
    if (fiber != nullptr) scheduling_group::Unpark(std::exchange(fiber, nullptr));
  }
  void PollIfDue(steady_clock::time_point) override {}
  bool TryEnter() override { return false; }
  void Wait() override {}
  void WaitUntil(std::chrono::steady_clock::time_point /*until*/) override {}
  void LeaveAfterDispatch() override {}
  void Interrupt() override {}

  scheduling_group::FiberEntity* fiber = nullptr;
};

TEST(KeptTimers, AreTheThreadsWhenTheWorkerFindsAnotherFiberInItsSpin) {
  auto poller = std::make_unique<WakesInSpin>();
  WakesInSpin* const wakes = poller.get();
  TimedGroup group(1);
  ASSERT_TRUE(group.group().SetReactor(std::move(poller)));
  group.Run([&] {
    scheduling_group::FiberEntity* waiter = nullptr;
    bool ended = false;
    group.Start([&] {
      waiter = scheduling_group::CurrentFiber();
      scheduling_group::PrepareToPark(waiter);
      scheduling_group::ParkPrepared(waiter);
      while (group.timers().fired() == 0) base::CpuRelax();
      ended = true;
    });
    while (waiter == nullptr) scheduling_group::YieldCurrentFiber();
    wakes->fiber = waiter;
    TimerSleepUntil(FromNow(milliseconds(20)));
    EXPECT_TRUE(ended);
  });
}

// No sleep in between: the worker goes from the fiber that parks to one that computes until the other's time is over.
TEST(KeptTimers, AreTheThreadsWhenTheWorkerFindsAnotherFiber) {
  TimedGroup group(1);
  for (int round = Scaled(300); round > 0; --round) {
    const std::uint64_t before = group.timers().fired();
    group.Run([&group, before] {
      group.Start([&group, before] {
        while (group.timers().fired() == before) base::CpuRelax();
      });
      TimerSleepUntil(FromNow(microseconds(100)));
    });
  }
}

// The thread that claims a worker may lose its CPU before it says what for. The worker waits until then.
TEST(KeptTimers, AreTheThreadsWhenAClaimIsSlow) {
  TimedGroup group(1);
  scheduling_group::IdleWorkers& idle = group.group().idle();
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = group.timers().fired();
    const auto fired = [&] { return group.timers().fired() != before; };
    group.Start([] { TimerSleepUntil(FromNow(milliseconds(20))); });
    while (!fired() && (group.timers().armed() == 0 || idle.sleepers().Empty())) std::this_thread::yield();
    const bool claimed = idle.ClaimSleeper() == 0;  // Else it has got up just now.
    while (!fired()) std::this_thread::yield();
    if (!claimed) continue;
    EXPECT_TRUE(idle.TryStartSpinning());
    group.group().Send(0, &group.group());
  }
}

// Where workers outnumber CPUs, the sleeper's own worker gets one milliseconds later than the timer thread.
TEST(KeptTimers, AreTheThreadsWhenAnotherWorkerIsBusy) {
  std::atomic<bool> stop{false};  // Outlives the workers: one of them reads it last.
  TimedGroup group(2);
  const TimerWorker& timers = group.timers();
  group.Start([&] {
    while (!stop.load()) base::CpuRelax();
  });
  group.Run([&] {
    while (timers.fired() == timers.fired_by_workers()) TimerSleepUntil(FromNow(milliseconds(1)));
    stop.store(true);
  });
}

// The level of woken fibers (global_queue.h). Nobody but the worker that its timer wakes takes fibers here: a thread
// that looks like a spinner does not search.
TEST(KeptTimers, WakeFibersThatRunBeforeNewOnes) {
  constexpr int kNew = 900;
  TimedGroup group(2);
  scheduling_group::IdleWorkers& idle = group.group().idle();
  TimerWorker& timers = group.timers();
  for (bool by_worker = false; !by_worker;) {
    while (idle.sleepers().bits() != 3) std::this_thread::yield();
    const std::uint64_t fired = timers.fired();
    const std::uint64_t fired_by_workers = timers.fired_by_workers();
    std::atomic<int> ran{0};
    std::atomic<int> ran_before{-1};
    group.Start([&] {
      TimerSleepUntil(FromNow(milliseconds(20)));
      ran_before.store(ran.load());
    });
    const auto both_sleep = [&] { return timers.armed() != 0 && idle.sleepers().bits() == 3; };
    while (timers.fired() == fired && !both_sleep()) std::this_thread::yield();
    const bool in_time = both_sleep() && idle.TryStartSpinning();
    for (int i = 0; i < kNew; ++i) group.Start([&ran] { ran.fetch_add(1); });
    while (in_time && timers.fired() == fired) std::this_thread::yield();
    by_worker = in_time && timers.fired_by_workers() != fired_by_workers;
    while (by_worker && ran_before.load() < 0) std::this_thread::yield();
    if (in_time) idle.StopSpinning();
    group.group().Notify();
    while (ran.load() != kNew || ran_before.load() < 0) std::this_thread::yield();
    EXPECT_TRUE(!by_worker || ran_before.load() < kNew / 2) << ran_before.load();
  }
}

TEST(KeptTimers, CallbacksAmongThemRunOnTheTimerThread) {
  TimedGroup group(1);
  group.Run([&group] {
    std::atomic<int> on_worker{0};
    for (int round = Scaled(300); round > 0; --round) {
      const Deadline at = FromNow(microseconds(200));
      std::atomic<bool> ran{false};
      // A tick later: when the worker gets up a little late, it is due, too.
      const std::uint64_t id = CreateFiberTimer(Deadline(at.time_point() + microseconds(33)), [&] {
        if (scheduling_group::CurrentWorker() != nullptr) on_worker.fetch_add(1);
        ran.store(true);
      });
      EnableFiberTimer(id);
      TimerSleepUntil(at);
      while (!ran.load()) TimerSleepUntil(FromNow(microseconds(50)));
    }
    EXPECT_EQ(on_worker.load(), 0);
    EXPECT_GT(group.timers().fired(), 0u);
  });
}

TEST(KeptTimers, NoneIsLostWhileTheyAreClaimedAndOthersSetTimers) {
  for (const unsigned workers : {1u, 3u}) {
    TimedGroup group(workers);
    constexpr int kFibers = 8;
    const int sleeps = Scaled(300);
    Countdown done(kFibers);
    std::atomic<bool> over{false};
    for (int i = 0; i < kFibers; ++i) {
      group.Start([&, i] {
        std::minstd_rand random(static_cast<unsigned>(i) + 1);
        for (int sleep = 0; sleep < sleeps; ++sleep) TimerSleepUntil(FromNow(microseconds(random() % 400)));
        done.Done();
      });
    }
    std::thread outsider([&] {
      WaitTimer node;
      node.fire = [](TimerNode*, FireContext*) {};
      std::minstd_rand random(99);
      while (!over.load()) {
        group.timers().Arm(&node, FromNow(microseconds(random() % 400)));
        group.Run([] {});
        static_cast<void>(TimerWorker::Disarm(&node));
      }
    });
    EXPECT_TRUE(done.Wait());
    over.store(true);
    outsider.join();
  }
}

}  // namespace
}  // namespace weft::timer
