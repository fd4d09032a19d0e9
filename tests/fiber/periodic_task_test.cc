// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/periodic_task.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/fiber/start/run_as_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/helper_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;
using Pace = PeriodicTask::Pace;
using Settings = PeriodicTask::Settings;

constexpr auto kNever = 24h * 365;

class PeriodicTaskTest : public InFiberAndThread {};

TEST_P(PeriodicTaskTest, NoRunIsEarlyAndAllAreInOneFiber) {
  InBoth([] {
    std::atomic<int> runs{0};
    FiberEvent enough;
    std::uint64_t id = 0;
    const auto begin = steady_clock::now();
    PeriodicTask task;
    ASSERT_TRUE(task.Start("tick", {.period = 1ms}, [&] {
      const int run = ++runs;
      EXPECT_GE(steady_clock::now() - begin, run * 1ms);
      if (run == 1) id = GetFiberId();
      EXPECT_EQ(GetFiberId(), id);
      EXPECT_EQ(GetFiberName(), "tick");
      if (run == 5) enough.Set();
    }));
    EXPECT_TRUE(task.IsRunning());
    EXPECT_TRUE(enough.Wait(30s));
    task.Stop();
    EXPECT_FALSE(task.IsRunning());
    EXPECT_NE(id, 0u);
  });
}

// Three quarters of each period are spent in the function. A busy machine may spoil an attempt; the other pace, all.
TEST_P(PeriodicTaskTest, AFixedRateDoesNotDriftAndAFixedDelayFollowsTheEnd) {
  static constexpr auto kPeriod = 4ms;
  static constexpr int kRuns = 5;
  const auto five_runs_take = [](Pace pace) {
    int runs = 0;
    FiberEvent enough;
    const auto begin = steady_clock::now();
    auto last_end = begin;
    PeriodicTask task;
    EXPECT_TRUE(task.Start("tick", {.period = kPeriod, .pace = pace}, [&] {
      if (pace == Pace::kFixedDelay) {
        EXPECT_GE(steady_clock::now() - last_end, kPeriod);
      }
      FiberSleepFor(kPeriod * 3 / 4);
      last_end = steady_clock::now();
      if (++runs == kRuns) enough.Set();
    }));
    EXPECT_TRUE(enough.Wait(30s));
    return steady_clock::now() - begin;
  };
  InFiber([&] {
    EXPECT_GE(five_runs_take(Pace::kFixedDelay), kRuns * kPeriod * 7 / 4);
    for (int attempt = 0; attempt < 300; ++attempt) {
      if (five_runs_take(Pace::kFixedRate) < kRuns * kPeriod * 3 / 2) return;
    }
    ADD_FAILURE() << "five runs at a fixed rate always took longer than five periods and a half of them";
  });
}

TEST_P(PeriodicTaskTest, RunsThatFellOutAreNotCaughtUp) {
  InBoth([] {
    constexpr auto kPeriod = 5ms;
    int runs = 0;
    FiberEvent enough;
    steady_clock::time_point long_run_ended;
    PeriodicTask task;
    ASSERT_TRUE(task.Start("tick", {.period = kPeriod}, [&] {
      ++runs;
      if (runs == 1) {
        FiberSleepFor(kPeriod * 4);
        long_run_ended = steady_clock::now();
      }
      if (runs == 4) {
        // The first of the three may be due at once.
        EXPECT_GE(steady_clock::now() - long_run_ended, 2 * kPeriod);
        enough.Set();
      }
    }));
    EXPECT_TRUE(enough.Wait(30s));
  });
}

TEST_P(PeriodicTaskTest, TheFirstRunIsAtOnceIfItShallBe) {
  InBoth([] {
    FiberEvent ran;
    PeriodicTask task;
    ASSERT_TRUE(task.Start("once", {.period = kNever, .run_at_once = true}, [&] { ran.Set(); }));
    EXPECT_TRUE(ran.Wait(30s));
  });
}

TEST_P(PeriodicTaskTest, RunsAreForcedOneByOne) {
  InBoth([] {
    std::atomic<int> runs{0};
    std::atomic<int> inside{0};
    PeriodicTask task;
    ASSERT_TRUE(task.Start("forced", {.period = kNever}, [&] {
      EXPECT_EQ(++inside, 1) << "runs overlap";
      FiberYield();
      --inside;
      ++runs;
    }));
    for (int run = 1; run <= 20; ++run) {
      task.ForceStep();
      Until([&] { return runs >= run; });
      ASSERT_EQ(runs, run) << "a run that nobody asked for";
    }
    for (int i = 0; i < 100; ++i) task.ForceStep();
    task.Stop();
    EXPECT_LE(runs, 120);
  });
}

TEST_P(PeriodicTaskTest, ARunThatIsForcedDuringARunFollowsIt) {
  InBoth([] {
    std::atomic<int> runs{0};
    FiberEvent go;
    PeriodicTask task;
    ASSERT_TRUE(task.Start("forced", {.period = kNever, .run_at_once = true}, [&] {
      if (++runs == 1) go.Wait();
    }));
    Until([&] { return runs == 1; });
    for (int i = 0; i < 3; ++i) task.ForceStep();
    go.Set();
    Until([&] { return runs == 2; });
    task.Stop();
    EXPECT_EQ(runs, 2) << "three calls during a run make one";
  });
}

TEST_P(PeriodicTaskTest, StopWaitsForTheRunUnderWay) {
  InBoth([] {
    auto held = std::make_shared<int>(1);
    FiberEvent entered, go;
    std::atomic<bool> ended{false};
    PeriodicTask task;
    ASSERT_TRUE(task.Start("slow", {.period = 1ms, .run_at_once = true}, [&, held] {
      entered.Set();
      go.Wait();
      for (int i = 0; i < 10; ++i) FiberYield();
      EXPECT_FALSE(ended.exchange(true)) << "a run began after the stop";
    }));
    ASSERT_TRUE(entered.Wait(30s));
    task.RequestStop();
    EXPECT_FALSE(task.IsRunning());
    go.Set();
    task.Stop();
    EXPECT_TRUE(ended);
    EXPECT_EQ(held.use_count(), 1) << "the function is destroyed";
    task.Stop();
  });
}

TEST_P(PeriodicTaskTest, ACancelledStopIsRequestedAndMayBeRepeated) {
  InBoth([] {
    auto held = std::make_shared<int>(1);
    FiberEvent entered, go;
    std::atomic<int> begun{0};
    std::atomic<bool> ended{false};
    PeriodicTask task;
    ASSERT_TRUE(task.Start("slow", {.period = 1ms, .run_at_once = true}, [&, held] {
      ++begun;
      entered.Set();
      go.Wait();
      ended = true;
    }));
    ASSERT_TRUE(entered.Wait(30s));
    std::atomic<bool> went_on{false};
    Fiber stopping([&] {
      task.Stop();
      went_on = true;
    });
    Until([&] { return !task.IsRunning(); });
    EXPECT_TRUE(stopping.Cancel());
    stopping.Join();
    EXPECT_FALSE(went_on);
    EXPECT_FALSE(ended) << "the run under way goes on";
    EXPECT_FALSE(task.IsRunning());
    EXPECT_EQ(held.use_count(), 2);
    go.Set();
    task.Stop();
    EXPECT_TRUE(ended);
    EXPECT_EQ(begun, 1) << "a run began after the stop";
    EXPECT_EQ(held.use_count(), 1) << "the function is destroyed";
    entered.Reset();
    ASSERT_TRUE(task.Start("again", {.period = kNever, .run_at_once = true}, [&] { entered.Set(); }));
    EXPECT_TRUE(entered.Wait(30s));
  });
}

TEST_P(PeriodicTaskTest, ItsDestructorStopsInACancelledFiber) {
  InFiber([] {
    std::atomic<bool> ended{false};
    CancelScope scope;
    scope.Cancel();
    static_cast<void>(scope.Run([&] {
      FiberEvent entered;
      PeriodicTask task;
      ASSERT_TRUE(task.Start("slow", {.period = kNever, .run_at_once = true}, [&] {
        entered.Set();
        FiberSleepFor(1ms);
        ended = true;
      }));
      Shielded([&] { entered.Wait(); });
    }));
    EXPECT_TRUE(ended);
  });
}

TEST_P(PeriodicTaskTest, ItsDestructorStops) {
  InBoth([] {
    for (int round = 0; round < 20; ++round) {
      std::atomic<int> inside{0};
      {
        PeriodicTask task;
        ASSERT_TRUE(task.Start("short", {.period = 20us, .run_at_once = round % 2 == 0}, [&] {
          ++inside;
          FiberYield();
          --inside;
        }));
        for (int i = 0; i < round; ++i) std::this_thread::yield();
      }
      ASSERT_EQ(inside, 0);
    }
  });
}

TEST_P(PeriodicTaskTest, NewSettingsHoldForTheRunThatIsWaitedFor) {
  InBoth([] {
    FiberLatch runs(3);
    std::atomic<int> left{3};
    PeriodicTask task;
    ASSERT_TRUE(task.Start("tick", {.period = kNever}, [&] {
      if (left.fetch_sub(1) > 0) runs.CountDown();
    }));
    task.SetSettings({.period = 1ms, .pace = Pace::kFixedDelay});
    EXPECT_EQ(task.settings().period, 1ms);
    EXPECT_TRUE(runs.Wait(30s));
  });
}

// A run that falls out on a busy machine spoils an attempt.
TEST_P(PeriodicTaskTest, JitterMovesRunsEarlierByItsAmountAtMost) {
  static constexpr auto kPeriod = 2ms;
  const auto one_of_five_is_early = [] {
    FiberLatch five(5);
    bool early = false;
    int runs = 0;
    const auto begin = steady_clock::now();
    PeriodicTask task;
    EXPECT_TRUE(task.Start("spread", {.period = kPeriod, .jitter = kPeriod / 2}, [&] {
      if (++runs > 5) return;
      const auto since_begin = steady_clock::now() - begin;
      EXPECT_GE(since_begin, runs * kPeriod - kPeriod / 2);
      early |= since_begin < runs * kPeriod;
      five.CountDown();
    }));
    EXPECT_TRUE(five.Wait(30s));
    task.Stop();
    return early;
  };
  InFiber([&] {
    for (int attempt = 0; attempt < 500; ++attempt) {
      if (one_of_five_is_early()) return;
    }
    ADD_FAILURE() << "no run of 2,500 was early";
  });
}

TEST_P(PeriodicTaskTest, MayRequestItsOwnStopAndStartAgain) {
  InBoth([] {
    PeriodicTask task;
    for (int round = 0; round < 3; ++round) {
      std::atomic<int> runs{0};
      ASSERT_TRUE(task.Start("again", {.period = 100us, .run_at_once = true}, [&] {
        if (++runs == 2) task.RequestStop();
      }));
      Until([&] { return !task.IsRunning(); });
      task.Stop();
      EXPECT_EQ(runs, 2);
    }
  });
}

TEST_P(PeriodicTaskTest, AnExceptionEndsItsRunOnlyUnlessTheTaskShallStop) {
  const LoggedLines lines;
  InBoth([] {
    std::atomic<int> runs{0};
    const auto throws = [&] {
      ++runs;
      throw std::runtime_error("no rows");
    };
    PeriodicTask task;
    ASSERT_TRUE(task.Start("faulty", {.period = 100us}, throws));
    Until([&] { return runs >= 3; });
    EXPECT_TRUE(task.IsRunning());
    task.Stop();
    runs = 0;
    ASSERT_TRUE(task.Start("faulty", {.period = 100us, .stop_on_exception = true}, throws));
    Until([&] { return !task.IsRunning(); });
    task.Stop();
    EXPECT_EQ(runs, 1);
  });
}

WEFT_INSTANTIATE_FEW_SHAPES(PeriodicTaskTest);

TEST(PeriodicTask, ItStopsAtTheEndOfTheRuntime) {
  PeriodicTask task;
  for (const bool stop : {false, true}) {
    std::optional<RuntimeOf> runtime(Shape{2, 1});
    std::atomic<int> runs{0};
    ASSERT_TRUE(task.Start("forgotten", {.period = kNever, .run_at_once = true}, [&] { ++runs; }));
    Until([&] { return runs == 1; });
    EXPECT_EQ(TerminateRuntime(), 0u) << "it held up the runtime's end";
    EXPECT_FALSE(task.IsRunning());
    if (stop) break;  // The destructor does it.
    task.Stop();
  }
}

// A busy machine may spoil an attempt.
TEST(PeriodicTask, ALateRunShiftsNoOtherAtAFixedRate) {
  static constexpr auto kPeriod = 8ms;
  const RuntimeOf runtime(Shape{1, 1});
  const auto second_run_begins_after = [] {
    FiberLatch two_runs(2);
    steady_clock::duration after{};
    int runs = 0;
    const auto begin = steady_clock::now();
    PeriodicTask task;
    EXPECT_TRUE(task.Start("tick", {.period = kPeriod}, [&] {
      if (++runs > 2) return;
      after = steady_clock::now() - begin;
      two_runs.CountDown();
    }));
    // Keeps the worker busy until half a period after the first run is due.
    while (steady_clock::now() - begin < kPeriod * 3 / 2) {
    }
    EXPECT_TRUE(two_runs.Wait(30s));
    task.Stop();
    EXPECT_GE(after, 2 * kPeriod);
    return after;
  };
  Fiber([&] {
    for (int attempt = 0; attempt < 200; ++attempt) {
      if (second_run_begins_after() < kPeriod * 5 / 2) return;
    }
    ADD_FAILURE() << "the second run was always late";
  }).Join();
}

TEST(PeriodicTask, AnExceptionIsLogged) {
  const RuntimeOf runtime(Shape{1, 1});
  const LoggedLines lines;
  PeriodicTask task;
  ASSERT_TRUE(task.Start("faulty", {.period = 1ms}, [] { throw std::runtime_error("no rows"); }));
  // A line a second at most.
  const auto is_logged = [&] {
    return lines.text().find("PeriodicTask: 'faulty' threw: no rows") != std::string::npos;
  };
  const Deadline limit = 60s;
  Until([&] { return is_logged() || limit.expired(); });
  EXPECT_TRUE(is_logged());
}

TEST(PeriodicTask, MayBeRefused) {
  PeriodicTask task;
  auto held = std::make_shared<int>(1);
  const RuntimeOf runtime(Shape{1, 1});
  {
    const RefuseFiberStarts refuse;
    EXPECT_FALSE(task.Start("refused", {.period = 1ms}, [held] {}));
  }
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_FALSE(task.IsRunning());
  task.Stop();
  EXPECT_TRUE(task.Start("taken", {.period = 1ms}, [held] {}));
}

TEST(PeriodicTask, NeverStartedItOnlyAnswers) {
  PeriodicTask task;
  task.RequestStop();
  task.Stop();
  EXPECT_FALSE(task.IsRunning());
}

TEST(PeriodicTask, APeriodMayBeAsLongAsItLikes) {
  const RuntimeOf runtime(Shape{1, 1});
  for (const Pace pace : {Pace::kFixedRate, Pace::kFixedDelay}) {
    FiberEvent ran;
    constexpr auto kLongest = std::chrono::nanoseconds::max();
    PeriodicTask task;
    ASSERT_TRUE(task.Start("once", {.period = kLongest, .jitter = kLongest / 2, .pace = pace}, [&] {
      EXPECT_FALSE(ran.IsSet());
      ran.Set();
    }));
    task.ForceStep();
    EXPECT_TRUE(ran.Wait(30s));
  }
}

TEST(PeriodicTaskDeathTest, MisuseEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  PeriodicTask task;
  const auto start = [&](const Settings& settings, std::function<void()> f) {
    static_cast<void>(task.Start("x", settings, std::move(f)));
  };
  EXPECT_DEATH(start({.period = 0ms}, [] {}), "PeriodicTask::Start: a period of 0 ns cannot be");
  EXPECT_DEATH(start({.period = 10ms, .jitter = 6ms}, [] {}), "a jitter of 6000000 ns is not between");
  EXPECT_DEATH(task.SetSettings({.period = 10ms, .jitter = -1ms}), "PeriodicTask::SetSettings: a jitter of -1000000");
  EXPECT_DEATH(start({.period = 1s}, nullptr), "the function is empty");
  EXPECT_DEATH(
      {
        StartRuntime(OptionsOf(Shape{1, 1}));
        start({.period = 1s}, [] {});
        start({.period = 1s}, [] {});
      },
      "call Stop\\(\\) first");
  EXPECT_DEATH(
      {
        StartRuntime(OptionsOf(Shape{1, 1}));
        start({.period = 1s, .run_at_once = true}, [&] { task.Stop(); });
        std::this_thread::sleep_for(30s);
      },
      "would wait for its own end");
}

}  // namespace
}  // namespace weft::fiber
