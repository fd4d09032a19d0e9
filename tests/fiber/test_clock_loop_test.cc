// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/test_clock.h and FiberLoop: the loop's thread waits by it.
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/test_clock.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using TimePoint = TestClock::TimePoint;
using Order = std::vector<std::string>;

// Waits as a foreign loop does.
bool BecomesReadable(int fd) {
  pollfd entry{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 60'000) == 1;
}

// A loop alone, without a runtime.
class TestClockLoopTest : public ::testing::Test {
 protected:
  std::chrono::nanoseconds Passed() const { return clock_.Now() - begin_; }

  TestClock clock_;
  const TimePoint begin_ = clock_.Now();
  FiberLoop loop_;
};

TEST_F(TestClockLoopTest, RunTakesNoTimeForSleeps) {
  Order order;
  loop_.AddTask([&] {
    FiberSleepFor(2h);
    order.emplace_back("late");
    EXPECT_EQ(Passed(), 2h);
  });
  loop_.AddTask([&] {
    FiberSleepFor(1h);
    order.emplace_back("early");
    EXPECT_EQ(Passed(), 1h);
  });
  loop_.Run();
  EXPECT_EQ(order, (Order{"early", "late"}));
  EXPECT_EQ(Passed(), 2h);
}

// A wait there runs the loop, and time goes on.
TEST_F(TestClockLoopTest, TheMainContextMayWait) {
  FiberEvent event;
  std::thread setter;
  loop_.AddTask([&] {
    loop_.RunInMainContext([&] {
      FiberEvent never;
      EXPECT_FALSE(never.Wait(1h));
      EXPECT_EQ(Passed(), 1h);
      clock_.Advance(1h);
      EXPECT_EQ(Passed(), 2h);
      setter = std::thread([&] {
        FiberEvent nothing;
        EXPECT_FALSE(nothing.Wait(1h));
        event.Set();
      });
      event.Wait();  // Time goes on meanwhile, too.
      EXPECT_EQ(Passed(), 3h);
    });
  });
  loop_.Run();
  setter.join();
}

// It should not wait at all; time goes on all the same.
TEST_F(TestClockLoopTest, TimeGoesOnWhileATimersCallbackWaits) {
  std::chrono::nanoseconds waited{0};
  loop_.AddTask([&] {
    EnableFiberTimer(CreateFiberTimer(1h, [&] {
      FiberEvent never;
      EXPECT_FALSE(never.Wait(1h));
      waited = Passed();
    }));
    FiberSleepFor(3h);
  });
  loop_.Run();
  EXPECT_EQ(waited, 2h);
}

// The outer loop, whose thread does not run it meanwhile, does not hold up time.
TEST_F(TestClockLoopTest, TimeGoesOnWhileALoopInTheMainContextOfAnotherSleeps) {
  FiberLoop inner;
  loop_.AddTask([&] {
    loop_.RunInMainContext([&] {
      inner.AddTask([&] {
        FiberSleepFor(1h);
        EXPECT_EQ(Passed(), 1h);
      });
      inner.Run();
    });
    EXPECT_EQ(Passed(), 1h);
    FiberSleepFor(1h);
    EXPECT_EQ(Passed(), 2h);
  });
  loop_.Run();
  EXPECT_EQ(Passed(), 2h);
}

// The callback runs after the first look at the predicate; nothing wakes the loop after the second one.
TEST_F(TestClockLoopTest, APredicateThatComesTrueBeforeTheSleepIsSeen) {
  std::uint64_t id = 0;
  bool fired = false;
  loop_.AddTask([&] { id = CreateFiberTimer(0h, [&] { fired = true; }); });
  loop_.Run();
  std::thread([&] { EnableFiberTimer(id); }).join();
  EXPECT_TRUE(loop_.RunUntil([&] { return fired; }, 1h));
  EXPECT_EQ(Passed(), 0h) << "it has slept until the deadline";
}

TEST_F(TestClockLoopTest, RunEndsAtItsDeadline) {
  FiberEvent never;
  loop_.AddTask([&] { EXPECT_FALSE(never.Wait(2h)); });
  EXPECT_FALSE(loop_.Run(1h));
  EXPECT_EQ(Passed(), 1h);
  EXPECT_TRUE(loop_.RunUntil([&] { return Passed() >= 2h; }));
  loop_.Run();
  EXPECT_EQ(Passed(), 2h);
}

TEST_F(TestClockLoopTest, AScopeIsCancelledAtItsDeadline) {
  loop_.AddTask([&] {
    EXPECT_THROW(FailAfter(1h,
                           [] {
                             for (;;) FiberSleepFor(7min);
                           }),
                 DeadlineExceeded);
    EXPECT_EQ(Passed(), 1h);
  });
  loop_.Run();
}

// An earlier timer than the one that it waits for comes from another thread's task.
TEST_F(TestClockLoopTest, ATaskFromElsewhereIsHeardOfWhileItWaits) {
  FiberEvent end;
  loop_.AddTask([&] { EXPECT_TRUE(end.Wait(Deadline::None())); });
  std::thread other([&] {
    EXPECT_TRUE(loop_.AddTaskRemote([&] {
      FiberSleepFor(1h);
      end.Set();
    }));
  });
  loop_.Run();
  other.join();
  EXPECT_EQ(Passed(), 1h);
}

TEST_F(TestClockLoopTest, AForeignLoopIsToldOfTheTime) {
  const int fd = loop_.NotifyFd();
  ASSERT_GE(fd, 0);
  Order order;
  loop_.AddTask([&] {
    for (int i = 0; i < 3; ++i) {
      FiberSleepFor(1h);
      order.push_back(std::to_string(Passed() / 1h));
    }
  });
  while (loop_.RunReady()) {
    EXPECT_TRUE(BecomesReadable(fd));
  }
  EXPECT_EQ(order, (Order{"1", "2", "3"}));
  EXPECT_EQ(Passed(), 3h);
}

// A foreign loop without descriptors.
TEST_F(TestClockLoopTest, TheNextDeadlineIsOneOfTheTestClock) {
  loop_.AddTask([] { FiberSleepFor(1h); });
  ASSERT_TRUE(loop_.RunReady());
  EXPECT_EQ(loop_.NextDeadline().time_point(), begin_ + 1h);
  FiberSleepUntil(loop_.NextDeadline());  // a plain thread's
  EXPECT_FALSE(loop_.RunReady());
  EXPECT_EQ(Passed(), 1h);
}

// Memory of timers that is to be given back is no reason for time to move.
TEST_F(TestClockLoopTest, ItsHousekeepingIsNoDeadline) {
  loop_.AddTask([] {
    std::vector<std::uint64_t> ids;
    const Deadline at = 1h;
    for (int i = 0; i < 100'000; ++i) ids.push_back(SetFiberTimer(at, [](std::uint64_t) {}));
    for (const std::uint64_t id : ids) EXPECT_TRUE(KillFiberTimer(id));
  });
  loop_.Run();
  EXPECT_TRUE(loop_.NextDeadline().is_none());
}

TEST_F(TestClockLoopTest, WithoutAutoAdvanceItMovesByAdvanceOnly) {
  clock_.SetAutoAdvance(false);
  Order order;
  loop_.AddTask([&] {
    FiberSleepFor(1h);
    order.emplace_back("an hour");
  });
  EXPECT_TRUE(loop_.RunReady());
  std::thread other([&] { clock_.Advance(1h); });
  loop_.Run();
  other.join();
  EXPECT_EQ(order, Order{"an hour"});
}

// Beside a runtime: both have the same time, and wait for each other.
class TestClockLoopAndRuntimeTest : public ::testing::TestWithParam<Shape> {
 protected:
  std::chrono::nanoseconds Passed() const { return clock_.Now() - begin_; }

  TestClock clock_;
  const TimePoint begin_ = clock_.Now();
  RuntimeOf runtime_{GetParam()};
  FiberLoop loop_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, TestClockLoopAndRuntimeTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}), &NameOf);

TEST_P(TestClockLoopAndRuntimeTest, AChannelLeadsFromOneToTheOther) {
  FiberChannel<std::chrono::nanoseconds> channel(1);
  FiberEvent loop_runs;  // Until then nobody sees its thread, and time would not wait for it.
  Fiber sender([&] {
    loop_runs.Wait();
    for (int i = 0; i < 100; ++i) {
      FiberSleepFor(36s);
      EXPECT_EQ(channel.Put(Passed()), ChannelResult::kOk);
    }
    channel.Close();
  });
  int items = 0;
  loop_.AddTask([&] {
    loop_runs.Set();
    for (const auto& sent_at : channel) {
      EXPECT_EQ(sent_at, ++items * 36s);
      EXPECT_EQ(Passed(), sent_at);  // Nothing moves the time while the loop runs.
      FiberSleepFor(1s);
    }
  });
  loop_.Run();
  sender.Join();
  EXPECT_EQ(items, 100);
}

TEST_P(TestClockLoopAndRuntimeTest, TimeStandsStillWhileTheLoopRuns) {
  FiberEvent loop_runs;
  Fiber sleeper([&] {
    loop_runs.Wait();
    FiberSleepFor(1h);
    EXPECT_EQ(Passed(), 1h);
  });
  loop_.AddTask([&] {
    loop_runs.Set();
    for (int i = 0; i < 1000; ++i) {
      FiberYield();
      EXPECT_EQ(Passed(), 0ns);
    }
  });
  loop_.Run();
  sleeper.Join();
}

// The loop is readable, and time waits for the thread that shall run it.
TEST_P(TestClockLoopAndRuntimeTest, TimeWaitsForAForeignLoopThatWasWoken) {
  const int fd = loop_.NotifyFd();
  FiberEvent woken;
  bool ran = false;
  loop_.AddTask([&] {
    woken.Wait();
    EXPECT_EQ(Passed(), 1h);
    ran = true;
  });
  ASSERT_TRUE(loop_.RunReady());
  Fiber waker([&] {
    FiberSleepFor(1h);
    woken.Set();
    FiberSleepFor(1h);
  });
  while (!ran) {
    ASSERT_TRUE(BecomesReadable(fd));
    loop_.RunReady();
  }
  waker.Join();
  EXPECT_EQ(Passed(), 2h);
}

TEST(TestClockLoopDeathTest, ItIsMadeBeforeTheLoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        FiberLoop loop;
        TestClock clock;
      },
      "TestClock: it is made while there is a FiberLoop");
}

TEST(TestClockLoopDeathTest, ItIsDestroyedAfterTheLoop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto* const clock = new TestClock;
        FiberLoop loop;
        delete clock;
      },
      "TestClock: it is destroyed while there is a FiberLoop");
}

}  // namespace
}  // namespace weft::fiber
