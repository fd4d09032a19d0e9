// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/this_fiber.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

class ThisFiberTest : public InEachShape {
 protected:
  // From a fiber and from a plain thread.
  template <class F>
  static void InBoth(F&& f) {
    f();
    InFiber(f);
  }
};
WEFT_INSTANTIATE_SHAPES(ThisFiberTest);

TEST_P(ThisFiberTest, SleepForIsNeverShort) {
  InBoth([] {
    for (const auto duration : {1us, 100us, 1000us, 5000us}) {
      const auto begin = Steady::now();
      FiberSleepFor(duration);
      EXPECT_GE(Steady::now() - begin, duration);
    }
  });
}

TEST_P(ThisFiberTest, SleepForZeroOrLessReturnsAtOnce) {
  InBoth([] {
    const auto begin = Steady::now();
    FiberSleepFor(0s);
    FiberSleepFor(-1h);
    FiberSleepFor(std::chrono::hours::min());
    FiberSleepFor(std::chrono::duration<double>(-1.5));
    EXPECT_LT(Steady::now() - begin, 1min);
  });
}

TEST_P(ThisFiberTest, SleepUntilATimeThatHasPassedReturnsAtOnce) {
  InBoth([] {
    FiberSleepUntil(Steady::now() - 1h);
    FiberSleepUntil(Steady::time_point::min());
    FiberSleepUntil(std::chrono::system_clock::now() - 1h);
  });
}

TEST_P(ThisFiberTest, ALoopOfSleepsThatAreOverLetsOthersRun) {
  InFiber([] {
    std::atomic<bool> other_ran{false};
    Fiber other([&] { other_ran = true; });
    while (!other_ran) FiberSleepFor(0s);
    other.Join();
  });
}

TEST_P(ThisFiberTest, SleepUntilWorksWithAnyClock) {
  InBoth([] {
    const auto steady = Steady::now() + 3ms;
    FiberSleepUntil(steady);
    EXPECT_GE(Steady::now(), steady);
    const auto system = std::chrono::system_clock::now() + 3ms;
    FiberSleepUntil(system);
    EXPECT_GE(std::chrono::system_clock::now(), system);
    const auto coarse = std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now()) + 2ms;
    FiberSleepUntil(coarse);
    EXPECT_GE(std::chrono::system_clock::now(), coarse);
  });
}

// A clock that is set back by an hour, once: the sleeper must not wake before the time has come by that clock.
struct ClockThatIsSetBack {
  using duration = std::chrono::nanoseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<ClockThatIsSetBack>;
  [[maybe_unused]] static constexpr bool is_steady = false;

  static inline std::atomic<rep> offset{0};
  static time_point now() { return time_point(Steady::now().time_since_epoch() + duration(offset)); }
};

TEST_P(ThisFiberTest, SleepUntilAsksAClockThatWasSetBackAgain) {
  ClockThatIsSetBack::offset = 0;
  InFiber([] {
    const auto time = ClockThatIsSetBack::now() + 5ms;
    Fiber setter([] { ClockThatIsSetBack::offset = -5'000'000; });
    FiberSleepUntil(time);
    EXPECT_GE(ClockThatIsSetBack::now(), time);
    setter.Join();
  });
}

// (That FiberSleepFor(hours::max()) does not overflow either: RuntimeTest, ASleeperForEverIsReported.)

TEST_P(ThisFiberTest, ASleepingFiberLeavesItsWorkerToOthers) {
  // More sleepers than workers, and each sleeps until all have begun.
  const int sleepers = static_cast<int>(GetConcurrencyHint()) * 20;
  const Deadline limit = 30s;
  std::atomic<int> begun{0};
  std::atomic<bool> all_began{true};
  FiberLatch latch(sleepers);
  for (int i = 0; i < sleepers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      ++begun;
      while (begun < sleepers && !limit.expired()) FiberSleepFor(5ms);
      if (begun < sleepers) all_began = false;
      latch.CountDown();
    }));
  }
  latch.Wait();
  EXPECT_TRUE(all_began);
}

TEST(ThisFiberTestWithOneWorker, SleepersWakeInTheOrderOfTheirDeadlines) {
  const RuntimeOf runtime(Shape{1, 1});
  std::vector<int> order;
  // True: all slept before the first deadline.
  const auto sleep = [&](std::chrono::milliseconds patience) {
    order.clear();
    bool all_slept = true;
    std::vector<Fiber> sleepers;
    const auto first = Steady::now() + patience;
    for (const int ms : {30, 10, 20, 0}) {
      sleepers.emplace_back([&, first, ms] {
        if (Steady::now() >= first) all_slept = false;
        FiberSleepUntil(first + std::chrono::milliseconds(ms));
        order.push_back(ms);
      });
    }
    for (Fiber& sleeper : sleepers) sleeper.Join();
    return all_slept;
  };
  Fiber([&] {
    auto patience = 5ms;
    while (!sleep(patience)) patience *= 2;  // A busy machine.
  }).Join();
  EXPECT_EQ(order, (std::vector<int>{0, 10, 20, 30}));
}

TEST(ThisFiberTestWithOneWorker, YieldLetsReadyFibersRunInOrder) {
  const RuntimeOf runtime(Shape{1, 1});
  std::string order;
  Fiber([&] {
    std::vector<Fiber> fibers;
    for (const char letter : {'a', 'b', 'c'}) {
      fibers.emplace_back([&order, letter] {
        for (int i = 0; i < 3; ++i) {
          order.push_back(letter);
          FiberYield();
        }
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
  }).Join();
  EXPECT_EQ(order, "abcabcabc");
}

TEST_P(ThisFiberTest, YieldAloneReturns) {
  InFiber([] {
    for (int i = 0; i < 1000; ++i) FiberYield();
  });
}

TEST_P(ThisFiberTest, WhoTheCallerIs) {
  EXPECT_FALSE(IsRunningInFiberWorker());
  EXPECT_EQ(GetFiberId(), 0U);
  EXPECT_EQ(GetFiberName(), "");
  InFiber([] {
    EXPECT_TRUE(IsRunningInFiberWorker());
    EXPECT_NE(GetFiberId(), 0U);
    EXPECT_EQ(GetFiberName(), "");
  });
}

TEST_P(ThisFiberTest, FiberCountAndQueueSizeFollowTheFibers) {
  const std::size_t before = GetFiberCount();
  FiberEvent go;
  constexpr int kFibers = 100;
  FiberLatch waiting(kFibers);
  std::vector<Fiber> fibers;
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&] {
      waiting.CountDown();
      go.Wait();
    });
  }
  waiting.Wait();
  EXPECT_EQ(GetFiberCount(), before + kFibers);
  go.Set();
  for (Fiber& fiber : fibers) fiber.Join();
  EXPECT_EQ(GetFiberCount(), before);
  EXPECT_EQ(GetFiberQueueSize(), 0U);
}

TEST(ThisFiberTestWithOneWorker, QueueSizeCountsThoseThatWaitForAWorker) {
  const RuntimeOf runtime(Shape{1, 1});
  Fiber([] {
    std::vector<Fiber> fibers;
    for (int i = 0; i < 50; ++i) fibers.emplace_back([] {});
    EXPECT_EQ(GetFiberQueueSize(), 50U);
    for (Fiber& fiber : fibers) fiber.Join();
  }).Join();
}

}  // namespace
}  // namespace weft::fiber
