// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/test_clock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/testing.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using TimePoint = TestClock::TimePoint;

// A test clock, and a runtime inside of it.
class TestClockTest : public ::testing::TestWithParam<Shape> {
 protected:
  // How much time the call takes.
  template <class F>
  std::chrono::nanoseconds Took(F&& f) {
    const TimePoint begin = clock_.Now();
    f();
    return clock_.Now() - begin;
  }
  template <class F>
  static void InFiber(F&& f) {
    Fiber(std::forward<F>(f)).Join();
  }

  TestClock clock_;
  RuntimeOf runtime_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Shapes, TestClockTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

// Whether nothing took the time that it says: the machine's clock has not moved as far.
TEST_P(TestClockTest, AnHourOfRetriesTakesNoTime) {
  InFiber([&] {
    const auto really = std::chrono::steady_clock::now();
    int calls = 0;
    const auto took = Took([&] {
      const Deadline deadline = 1h;
      auto pause = 100ms;
      for (;;) {
        ++calls;
        if (deadline.remaining() < pause) break;
        FiberSleepFor(pause);
        pause *= 2;
      }
    });
    // 0.1 s + 0.2 s + ... + 1638.4 s; the next pause does not fit.
    EXPECT_EQ(calls, 16);
    EXPECT_EQ(took, 100ms * ((1 << 15) - 1));
    EXPECT_LT(std::chrono::steady_clock::now() - really, 10min);
  });
}

TEST_P(TestClockTest, SleepsInterleaveInTheOrderOfTheirDeadlines) {
  std::vector<std::pair<char, int>> seen;
  FiberMutex mutex;
  const TimePoint begin = clock_.Now();
  InFiber([&] {
    const auto sleep_again_and_again = [&](char name, std::chrono::milliseconds pause, int times) {
      for (int i = 0; i < times; ++i) {
        FiberSleepFor(pause);
        const std::scoped_lock lock(mutex);
        seen.emplace_back(name, (clock_.Now() - begin) / 1ms);
      }
    };
    Fiber a([&] { sleep_again_and_again('a', 300ms, 3); });
    Fiber b([&] { sleep_again_and_again('b', 400ms, 2); });
    a.Join();
    b.Join();
  });
  EXPECT_EQ(seen, (std::vector<std::pair<char, int>>{{'a', 300}, {'b', 400}, {'a', 600}, {'b', 800}, {'a', 900}}));
}

TEST_P(TestClockTest, TimeStandsStillWhileAFiberRuns) {
  InFiber([&] {
    Fiber sleeper([] { FiberSleepFor(1s); });
    FiberSleepFor(1ms);
    const TimePoint before = clock_.Now();
    // The sleeper's deadline is there, and a worker may be free for it; a plain thread says when we go on.
    std::mutex mutex;
    std::condition_variable started;
    std::condition_variable go_on;
    bool is_started = false;
    bool may_go_on = false;
    std::thread outside([&] {
      std::unique_lock lock(mutex);
      started.wait(lock, [&] { return is_started; });
      may_go_on = true;
      go_on.notify_one();
    });
    {
      std::unique_lock lock(mutex);
      is_started = true;
      started.notify_one();
      go_on.wait(lock, [&] { return may_go_on; });
    }
    EXPECT_EQ(clock_.Now(), before);
    EXPECT_FALSE(sleeper.Join(Deadline(0s)));
    outside.join();
    sleeper.Join();
    EXPECT_EQ(clock_.Now() - before, 999ms);
  });
}

TEST_P(TestClockTest, ADeadlineFollowsIt) {
  InFiber([&] {
    const Deadline deadline = 2min;
    const Deadline later = std::chrono::system_clock::now() + 1h;
    EXPECT_EQ(deadline.remaining(), 2min);
    EXPECT_EQ(deadline.time_point(), FiberClock::now() + 2min);
    FiberSleepFor(90s);
    EXPECT_EQ(deadline.remaining(), 30s);
    EXPECT_FALSE(deadline.expired());
    FiberSleepUntil(deadline);
    EXPECT_TRUE(deadline.expired());
    EXPECT_EQ(deadline.remaining(), 0s);
    EXPECT_FALSE(later.expired());
    EXPECT_GT(later.remaining(), 57min);  // From the system clock's present when it was made.
    EXPECT_LE(later.remaining(), 58min);
  });
}

TEST_P(TestClockTest, AnotherClocksTimeComes) {
  InFiber([&] {
    const auto took = Took([] { FiberSleepUntil(std::chrono::system_clock::now() + 1h); });
    EXPECT_LE(took, 1h);
    EXPECT_GT(took, 59min);
  });
}

// A wait that nobody ends takes its time-out.
struct TimedWait {
  const char* name;
  std::function<void()> wait;
};

std::vector<TimedWait> TimedWaits() {
  return {
      {"event", [] { EXPECT_FALSE(FiberEvent().Wait(7s)); }},
      {"latch", [] { EXPECT_FALSE(FiberLatch(1).Wait(7s)); }},
      {"semaphore", [] { EXPECT_FALSE(FiberSemaphore(0).Acquire(7s)); }},
      {"channel, empty",
       [] {
         FiberChannel<int> channel(1);
         EXPECT_EQ(channel.Get(7s).result(), ChannelResult::kTimedOut);
       }},
      {"channel, full",
       [] {
         FiberChannel<int> channel(1);
         EXPECT_EQ(channel.Put(1), ChannelResult::kOk);
         EXPECT_EQ(channel.Put(2, 7s), ChannelResult::kTimedOut);
       }},
      {"condition variable",
       [] {
         FiberMutex mutex;
         FiberConditionVariable changed;
         std::unique_lock lock(mutex);
         EXPECT_EQ(changed.wait_for(lock, 7s), std::cv_status::timeout);
       }},
      {"timed mutex",
       [] {
         FiberTimedMutex mutex;
         const std::scoped_lock lock(mutex);
         Fiber([&] { EXPECT_FALSE(mutex.try_lock_for(7s)); }).Join();
       }},
      {"shared mutex",
       [] {
         FiberSharedMutex mutex;
         const std::scoped_lock lock(mutex);
         Fiber([&] { EXPECT_FALSE(mutex.try_lock_shared_until(FiberClock::now() + 7s)); }).Join();
       }},
      {"join",
       [] {
         FiberEvent end;
         Fiber fiber([&] { end.Wait(); });
         EXPECT_FALSE(fiber.Join(7s));
         end.Set();
         fiber.Join();
       }},
      {"sleep", [] { FiberSleepFor(7s); }},
  };
}

TEST_P(TestClockTest, TimedWaitsOfFibersEndAtTheirDeadlines) {
  for (const TimedWait& timed : TimedWaits()) {
    InFiber([&] { EXPECT_EQ(Took(timed.wait), 7s) << timed.name; });
  }
}

TEST_P(TestClockTest, TimedWaitsOfThreadsEndAtTheirDeadlines) {
  // Only the thread waits for time, so that time stops where it goes on.
  for (const TimedWait& timed : TimedWaits()) EXPECT_EQ(Took(timed.wait), 7s) << timed.name;
}

TEST_P(TestClockTest, AWaitThatIsEndedInTimeTakesNoTime) {
  InFiber([&] {
    FiberEvent event;
    FiberChannel<int> channel(1);
    Fiber waiter([&] {
      EXPECT_EQ(Took([&] { EXPECT_TRUE(event.Wait(1h)); }), 0s);
      EXPECT_EQ(Took([&] { EXPECT_EQ(*channel.Get(1h), 1); }), 5s);
    });
    event.Set();
    FiberSleepFor(5s);
    EXPECT_EQ(channel.Put(1), ChannelResult::kOk);
    waiter.Join();
    // The deadlines that did not come leave nothing behind.
    EXPECT_EQ(Took([] { FiberSleepFor(3h); }), 3h);
  });
}

TEST_P(TestClockTest, APeriodicTimerFiresAtEachOfItsTimes) {
  InFiber([&] {
    const TimePoint begin = clock_.Now();
    std::atomic<int> fired{0};
    std::atomic<int> late{0};
    const std::uint64_t id = SetFiberTimer(Deadline(1s), 1s, [&](std::uint64_t) {
      if (clock_.Now() != begin + ++fired * 1s) ++late;
    });
    FiberSleepUntil(begin + 10min + 500ms);
    KillFiberTimerAndWait(id);
    EXPECT_EQ(fired, 600);
    EXPECT_EQ(late, 0);
  });
}

TEST_P(TestClockTest, ACallbackOnTheTimerThreadFiresInTime) {
  InFiber([&] {
    const TimePoint begin = clock_.Now();
    FiberEvent fired;
    const std::uint64_t id = CreateFiberTimer(Deadline(3s), [&](std::uint64_t) { fired.Set(); });
    EnableFiberTimer(id);
    fired.Wait();
    EXPECT_EQ(clock_.Now() - begin, 3s);
  });
}

TEST_P(TestClockTest, AKilledTimerIsNoDeadline) {
  InFiber([&] {
    std::vector<std::uint64_t> ids;
    for (int i = 1; i <= 20; ++i)
      ids.push_back(SetFiberTimer(Deadline(i * 1min), [](std::uint64_t) { ADD_FAILURE(); }));
    for (const std::uint64_t id : ids) EXPECT_TRUE(KillFiberTimer(id));
    EXPECT_EQ(Took([] { FiberSleepFor(1h); }), 1h);
  });
  EXPECT_EQ(Took([] { FiberSleepFor(1h); }), 1h);
}

TEST_P(TestClockTest, WithoutAutoAdvanceItMovesByAdvanceOnly) {
  clock_.SetAutoAdvance(false);
  std::vector<int> woken;
  FiberMutex mutex;
  const TimePoint begin = clock_.Now();
  FiberLatch started(3);
  FiberLatch ended(3);
  for (const int seconds : {3, 1, 2}) {
    ASSERT_TRUE(StartFiberDetached([&, seconds] {
      const Deadline deadline = seconds * 1s;
      started.CountDown();
      FiberSleepUntil(deadline);
      EXPECT_EQ(clock_.Now() - begin, seconds * 1s);
      {
        const std::scoped_lock lock(mutex);
        woken.push_back(seconds);
      }
      ended.CountDown();
    }));
  }
  started.Wait();
  clock_.Advance(999ms);
  EXPECT_EQ(woken, std::vector<int>{});
  EXPECT_EQ(clock_.Now() - begin, 999ms);
  clock_.Advance(1ms);
  EXPECT_EQ(woken, std::vector<int>{1});
  clock_.Advance(1h);
  EXPECT_EQ(woken, (std::vector<int>{1, 2, 3}));
  EXPECT_EQ(clock_.Now() - begin, 1h + 1s);
  ended.Wait();
}

TEST_P(TestClockTest, AFiberMayAdvanceIt) {
  InFiber([&] {
    clock_.SetAutoAdvance(false);
    std::atomic<int> steps{0};
    Fiber stepper([&] {
      for (int i = 0; i < 5; ++i) {
        FiberSleepFor(1s);
        ++steps;
      }
    });
    EXPECT_EQ(Took([&] { clock_.Advance(3s); }), 3s);
    EXPECT_EQ(steps, 3);
    clock_.Advance(2s);
    EXPECT_EQ(steps, 5);
    stepper.Join();
    clock_.SetAutoAdvance(true);
    EXPECT_EQ(Took([] { FiberSleepFor(1s); }), 1s);
  });
}

TEST_P(TestClockTest, AdvanceOfNothingMovesNothing) {
  EXPECT_EQ(Took([&] {
              clock_.Advance(0s);
              clock_.Advance(-1s);
            }),
            0s);
}

TEST(TestClockWithOneWorker, TheSameDeadlineWakesInTheOrderOfTheWaits) {
  TestClock clock;
  RuntimeOf runtime(Shape{1, 1});
  RunAsFiber([&] {
    std::vector<int> woken;
    std::vector<Fiber> fibers;
    const Deadline deadline = 1h;
    for (int i = 0; i < 600; ++i) {  // More than fire under one hold of the lock.
      fibers.emplace_back([&, i] {
        if (i % 3 == 0) FiberSleepFor(10s);
        FiberSleepUntil(deadline);
        woken.push_back(i);
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    std::vector<int> expected;
    for (int i = 0; i < 600; ++i) {
      if (i % 3 != 0) expected.push_back(i);
    }
    for (int i = 0; i < 600; i += 3) expected.push_back(i);
    EXPECT_EQ(woken, expected);
  });
}

TEST(TestClockOutsideOfARuntime, ATimedWaitOfAThreadEnds) {
  TestClock clock;
  const TimePoint begin = clock.Now();
  EXPECT_FALSE(FiberEvent().Wait(1h));
  FiberSleepFor(1h);
  EXPECT_EQ(clock.Now() - begin, 2h);
}

TEST(TestClockOutsideOfARuntime, AWakeThatComesInTimeIsSeen) {
  TestClock clock;
  clock.SetAutoAdvance(false);
  FiberEvent event;
  FiberEvent waits;
  std::thread waiter([&] {
    waits.Set();
    EXPECT_TRUE(event.Wait(1h));
  });
  waits.Wait();
  event.Set();
  waiter.join();
}

TEST(TestClockOutsideOfARuntime, TheNextRuntimeGoesOnWithIt) {
  TestClock clock;
  const TimePoint begin = clock.Now();
  for (int i = 1; i <= 3; ++i) {
    RuntimeOf runtime(Shape{2, 1});
    Fiber([] { FiberSleepFor(1h); }).Join();
    EXPECT_EQ(clock.Now() - begin, i * 1h);
  }
}

TEST(TestClockOutsideOfARuntime, AfterItTimeIsTheMachinesAgain) {
  {
    TestClock clock;
    RuntimeOf runtime(Shape{1, 1});
    Fiber([] { FiberSleepFor(1h); }).Join();
  }
  RuntimeOf runtime(Shape{1, 1});
  const auto before = std::chrono::steady_clock::now();
  const auto now = FiberClock::now();
  EXPECT_LE(before, now);
  EXPECT_LE(now, std::chrono::steady_clock::now());
  Fiber([] { FiberSleepFor(2ms); }).Join();
  EXPECT_GE(std::chrono::steady_clock::now() - before, 2ms);
}

TEST(TestClockOutsideOfARuntime, RunAsFiberStartsItsRuntimeUnderIt) {
  TestClock clock;
  RunAsFiber([&] {
    const TimePoint begin = clock.Now();
    FiberSleepFor(24h);
    EXPECT_EQ(clock.Now() - begin, 24h);
  });
}

TEST(TestClockOutsideOfARuntime, ARuntimeWithAFiberThatPollsEndsByTheMachinesTime) {
  TestClock clock;
  RuntimeOptions options = OptionsOf(Shape{2, 1});
  options.terminate_timeout = 100ms;
  StartRuntime(options);
  FiberEvent started;
  std::atomic<bool> stop{false};
  ASSERT_TRUE(StartFiberDetached([&] {
    started.Set();
    while (!stop) FiberYield();
    FiberSleepFor(1ns);
  }));
  started.Wait();
  // It keeps time from moving. It is let go only then.
  std::thread([&] { EXPECT_EQ(TerminateRuntime(), 1U); }).join();
  stop = true;
}

// Fibers run all the same, and the runtime ends.
TEST(TestClockOutsideOfARuntime, ACallbackThatIsDueAgainAtOnceDoesNotKeepOthersFromRunning) {
  TestClock clock;
  StartRuntime(OptionsOf(Shape{1, 1}));
  std::atomic<int> calls{0};
  FiberEvent called;
  std::function<void()> forever = [&] {
    if (++calls == 5'000) called.Set();
    EnableFiberTimer(CreateFiberTimer(FiberClock::now(), forever));
  };
  EnableFiberTimer(CreateFiberTimer(FiberClock::now(), forever));
  Fiber([&] { called.Wait(); }).Join();
  EXPECT_EQ(TerminateRuntime(), 0U);
}

#if !WEFT_TSAN  // It lets no child of several threads start another.
TEST(TestClockOutsideOfARuntime, AForkedChildFollowsTheMachinesTime) {
  GTEST_FLAG_SET(death_test_style, "fast");
  EXPECT_EXIT(
      {
        auto* const clock = new TestClock;
        const ::pid_t child = ::fork();
        if (child == 0) {
          const auto begin = std::chrono::steady_clock::now();
          FiberEvent never;
          const bool timed_out = !never.Wait(5ms);
          const bool waited = std::chrono::steady_clock::now() - begin >= 5ms;
          StartRuntime(OptionsOf(Shape{1, 1}));
          Fiber([] { FiberSleepFor(1ms); }).Join();
          delete clock;
          ::_exit(timed_out && waited && TerminateRuntime() == 0 ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        delete clock;
        ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
      },
      ::testing::ExitedWithCode(0), "");
}
#endif

TEST(TestClockOutsideOfARuntime, TerminateRuntimeWaitsForItsTimeOutByIt) {
  const auto really = std::chrono::steady_clock::now();
  {
    TestClock clock;
    clock.SetAutoAdvance(false);
    RuntimeOptions options = OptionsOf(Shape{1, 1});
    options.terminate_timeout = 1h;
    StartRuntime(options);
    const TimePoint begin = clock.Now();
    std::atomic<bool> slept{false};
    FiberEvent started;
    ASSERT_TRUE(StartFiberDetached([&] {
      started.Set();
      FiberSleepFor(59min);
      slept = true;
    }));
    started.Wait();
    EXPECT_EQ(TerminateRuntime(), 0U);
    EXPECT_TRUE(slept);
    EXPECT_EQ(clock.Now() - begin, 59min);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - really, 59min);
}

using TestClockDeathTest = ::testing::Test;

TEST(TestClockDeathTest, ItIsMadeBeforeTheRuntime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        RuntimeOf runtime(Shape{1, 1});
        TestClock clock;
      },
      "TestClock: it is made while the runtime runs.*make it before StartRuntime");
}

TEST(TestClockDeathTest, ACallbackOnTheTimerThreadMayNotWaitForTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto call = [](auto f) {
    TestClock clock;
    RuntimeOf runtime(Shape{1, 1});
    FiberEvent never;
    EnableFiberTimer(CreateFiberTimer(FiberClock::now() + 1s, [&] { f(clock, never); }));
    never.Wait();
  };
  EXPECT_DEATH(call([](TestClock& clock, FiberEvent&) { clock.Advance(1s); }),
               "TestClock::Advance: called by a timer's callback");
  EXPECT_DEATH(call([](TestClock&, FiberEvent& never) { (void)never.Wait(1s); }),
               "a timer's callback waits with a deadline");
}

TEST(TestClockDeathTest, ItIsDestroyedAfterTheRuntime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        TestClock clock;
        StartRuntime(OptionsOf(Shape{1, 1}));
      },
      "TestClock: it is destroyed while the runtime runs");
}

TEST(TestClockDeathTest, ThereIsOneAtATime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        TestClock clock;
        TestClock another;
      },
      "TestClock: there is one already");
}

}  // namespace
}  // namespace weft::fiber
