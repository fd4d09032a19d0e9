// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/test_clock.h beside what has deadlines of its own: cancel scopes, Select(), periodic tasks, throttlers.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/future.h"
#include "weft/fiber/periodic_task.h"
#include "weft/fiber/supervisor.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/throttled_loop.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using TimePoint = TestClock::TimePoint;

class TestClockScopesTest : public ::testing::TestWithParam<Shape> {
 protected:
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
INSTANTIATE_TEST_SUITE_P(Shapes, TestClockScopesTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

// Calls that fail, with longer and longer pauses between them. Returns only if somebody else gives it up.
void RetryForEver(int* calls) {
  for (auto pause = 100ms;; pause = std::min<std::chrono::milliseconds>(2 * pause, 1min)) {
    ++*calls;
    FiberSleepFor(pause);
  }
}

TEST_P(TestClockScopesTest, AnHourOfRetriesIsGivenUpAfterAnHour) {
  InFiber([&] {
    const auto really = std::chrono::steady_clock::now();
    int calls = 0;
    EXPECT_EQ(Took([&] { EXPECT_THROW(FailAfter(1h, [&] { RetryForEver(&calls); }), DeadlineExceeded); }), 1h);
    EXPECT_EQ(calls, 69);  // 0.1 s + 0.2 s + ... + 51.2 s, and then a minute each
    calls = 0;
    EXPECT_EQ(Took([&] { EXPECT_FALSE(MoveOnAfter(1h, [&] { RetryForEver(&calls); })); }), 1h);
    EXPECT_EQ(calls, 69);
    EXPECT_LT(std::chrono::steady_clock::now() - really, 10min);
  });
}

TEST_P(TestClockScopesTest, WhatEndsInTimeIsNotGivenUp) {
  InFiber([&] {
    EXPECT_EQ(Took([&] { FailAfter(1h, [] { FiberSleepFor(59min); }); }), 59min);
    // Its timer is gone: the next hour is another's.
    EXPECT_EQ(Took([&] { FiberSleepFor(2h); }), 2h);
  });
}

TEST_P(TestClockScopesTest, OfNestedDeadlinesTheFirstComesFirst) {
  InFiber([&] {
    const auto took = Took([&] {
      EXPECT_FALSE(MoveOnAfter(10min, [&] {
        EXPECT_FALSE(MoveOnAfter(1min, [] { FiberSleepFor(1h); }));
        EXPECT_EQ(TimeLeft(), 9min);
        // The inner one comes later than the outer one.
        EXPECT_FALSE(MoveOnAfter(1h, [] { FiberSleepFor(3h); }));
        ADD_FAILURE() << "the outer scope was to end";
      }));
    });
    EXPECT_EQ(took, 10min);
  });
}

TEST_P(TestClockScopesTest, ADeadlineIsMovedAndAShieldHasItsOwn) {
  InFiber([&] {
    CancelScope scope(1min);
    bool went_on = false;
    const auto took = Took([&] {
      EXPECT_FALSE(scope.Run([&] {
        FiberSleepFor(59s);
        scope.SetDeadline(1h);  // from now on
        try {
          FiberSleepFor(2h);
        } catch (const FiberCancelled&) {
          EXPECT_TRUE(scope.DeadlineHasPassed());
          EXPECT_FALSE(ShieldedFor(5s, [] { FiberSleepFor(1h); }));
          went_on = true;
          throw;
        }
      }));
    });
    EXPECT_TRUE(went_on) << "the limit of the shield has ended what is outside of it";
    EXPECT_EQ(took, 59s + 1h + 5s);
  });
}

// Time stands still while a fiber runs, and no timer fires.
TEST_P(TestClockScopesTest, AScopeWhoseDeadlineHasPassedNeedsNoTimer) {
  InFiber([&] {
    for (const Deadline& passed : {Deadline(0s), Deadline(-3s), Deadline(clock_.Now() - 1s), Deadline(clock_.Now())}) {
      CancelScope scope(passed);
      EXPECT_FALSE(scope.Run([&] {
        EXPECT_TRUE(scope.DeadlineHasPassed());
        FiberYield();
        ADD_FAILURE() << "FiberYield() did not throw";
      }));
      CancelScope set_later(1h);
      EXPECT_FALSE(set_later.Run([&] {
        set_later.SetDeadline(passed);
        EXPECT_TRUE(set_later.DeadlineHasPassed());
        TestCancel();
        ADD_FAILURE() << "TestCancel() did not throw";
      }));
      FiberScope fibers({.deadline = passed});
      EXPECT_TRUE(fibers.DeadlineHasPassed());
      EXPECT_THROW(FailAfter(passed, [] { FiberSleepFor(0s); }), DeadlineExceeded);
    }
  });
}

// A system_clock time point is as far from now as it is from that clock's present, and is converted once.
TEST_P(TestClockScopesTest, AScopesDeadlineMayBeAnotherClocks) {
  InFiber([&] {
    const auto took =
        Took([&] { EXPECT_FALSE(MoveOnAfter(std::chrono::system_clock::now() + 1h, [] { FiberSleepFor(2h); })); });
    EXPECT_LE(took, 1h);
    EXPECT_GT(took, 59min);
    const auto steady = Took([&] { EXPECT_FALSE(MoveOnAfter(clock_.Now() + 1h, [] { FiberSleepFor(2h); })); });
    EXPECT_EQ(steady, 1h);
  });
}

TEST_P(TestClockScopesTest, AFiberScopeCancelsItsFibersAtItsDeadline) {
  InFiber([&] {
    std::atomic<int> given_up{0};
    const auto took = Took([&] {
      FiberScope scope({.deadline = 1h});
      const bool ended = scope.Run([&] {
        for (int i = 0; i < 10; ++i) {
          EXPECT_TRUE(scope.Spawn([&] {
            try {
              FiberSleepFor(24h);
            } catch (const FiberCancelled&) {
              ++given_up;
              throw;
            }
          }));
        }
        FiberSleepFor(30min);
      });
      static_cast<void>(ended);
      try {
        scope.Wait();
      } catch (const FiberCancelled&) {
      }
    });
    EXPECT_EQ(took, 1h);
    EXPECT_EQ(given_up, 10);
  });
}

// The clock has what is on its stack.
TEST_P(TestClockScopesTest, AnAdvanceInACancelledScopeGoesOnToItsEnd) {
  InFiber([&] {
    EXPECT_EQ(Took([&] {
                EXPECT_THROW(FailAfter(1s,
                                       [&] {
                                         clock_.Advance(1h);
                                         FiberSleepFor(1s);
                                       }),
                             DeadlineExceeded);
              }),
              1h);
  });
}

// Its back-off, and what counts for its limit, are by the test clock.
TEST_P(TestClockScopesTest, ASupervisorWaitsBeforeItStartsAChildAgain) {
  InFiber([&] {
    FiberSleepFor(24h);  // So that the machine's time is another one.
    Supervisor::Options options;
    options.backoff = {.first = 10min, .longest = 10min, .jitter = 0};
    options.max_restarts = 3;
    options.period = 1h;
    Supervisor supervisor(options);
    std::vector<TimePoint> starts;
    ASSERT_TRUE(supervisor.Add("child", RestartKind::kPermanent, [&] {
      starts.push_back(clock_.Now());
      throw std::runtime_error("on purpose");
    }));
    EXPECT_EQ(Took([&] { EXPECT_THROW(supervisor.Run(), SupervisionFailed); }), 30min);
    ASSERT_EQ(starts.size(), 4U);
    EXPECT_EQ(starts[3] - starts[2], 10min);
  });
}

TEST_P(TestClockScopesTest, SelectEndsAtItsDeadline) {
  FiberChannel<int> channel(1);
  FiberEvent event;
  const auto select = [&] {
    return Select(OnGet(channel), OnSet(event), OnDeadline(2h), OnDeadline(1h), OnDeadline(3h));
  };
  // From a thread and from a fiber.
  EXPECT_EQ(Took([&] { EXPECT_EQ(select(), 3U); }), 1h);
  InFiber([&] { EXPECT_EQ(Took([&] { EXPECT_EQ(select(), 3U); }), 1h); });
}

TEST_P(TestClockScopesTest, SelectTakesWhatComesBeforeItsDeadline) {
  InFiber([&] {
    FiberChannel<int> channel(1);
    Fiber sender([&] {
      FiberSleepFor(59min);
      EXPECT_EQ(channel.Put(7), ChannelResult::kOk);
    });
    EXPECT_EQ(Took([&] { EXPECT_EQ(Select(OnGet(channel), OnDeadline(1h)), 0U); }), 59min);
    sender.Join();
    // In a scope that ends before.
    EXPECT_EQ(Took([&] { EXPECT_FALSE(MoveOnAfter(10s, [&] { Select(OnGet(channel), OnDeadline(1h)); })); }), 10s);
  });
}

TEST_P(TestClockScopesTest, APeriodicTaskRunsAtEachOfItsTimes) {
  InFiber([&] {
    std::vector<std::chrono::nanoseconds> times;
    const TimePoint begin = clock_.Now();
    PeriodicTask task;
    ASSERT_TRUE(task.Start("task", {.period = 10min}, [&] {
      times.push_back(clock_.Now() - begin);
      FiberSleepFor(1min);
    }));
    FiberSleepFor(1h + 5min);
    task.Stop();
    EXPECT_EQ(times, (std::vector<std::chrono::nanoseconds>{10min, 20min, 30min, 40min, 50min, 1h}));
  });
}

TEST_P(TestClockScopesTest, APeriodicTaskWithADelayCountsFromTheEndOfARun) {
  InFiber([&] {
    std::vector<std::chrono::nanoseconds> times;
    const TimePoint begin = clock_.Now();
    PeriodicTask task;
    ASSERT_TRUE(task.Start("task", {.period = 10min, .pace = PeriodicTask::Pace::kFixedDelay}, [&] {
      times.push_back(clock_.Now() - begin);
      FiberSleepFor(5min);
    }));
    FiberSleepFor(1h);
    task.Stop();
    EXPECT_EQ(times, (std::vector<std::chrono::nanoseconds>{10min, 25min, 40min, 55min}));
  });
}

TEST_P(TestClockScopesTest, AThrottlerKeepsItsPace) {
  InFiber([&] {
    int turns = 0;
    const auto took = Took([&] {
      ThrottledLoop(
          0.1, [&] { ++turns; }, 1h);  // every ten seconds
    });
    EXPECT_EQ(turns, 361);
    EXPECT_EQ(took, 1h);
  });
}

TEST_P(TestClockScopesTest, AFutureIsWaitedForUntilItsDeadline) {
  InFiber([&] {
    Promise<int> promise;
    Future<int> future = promise.GetFuture();
    EXPECT_EQ(Took([&] { EXPECT_FALSE(MoveOnAfter(1h, [&] { static_cast<void>(BlockingGet(std::move(future))); })); }),
              1h);
    promise.SetValue(1);
  });
}

}  // namespace
}  // namespace weft::fiber
