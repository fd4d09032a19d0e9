// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A run queue of 16 slots and 100,000 fibers: none is lost, none runs twice, nothing hangs, whoever starts or wakes
// them.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

// The queue has 16 places.
constexpr int kFibers = WEFT_ASAN || WEFT_TSAN ? 5'000 : 100'000;

class Overflow : public ::testing::TestWithParam<Shape> {
 protected:
  static RuntimeOptions SmallQueue() {
    RuntimeOptions options = OptionsOf(GetParam());
    options.run_queue_size = 16;
    options.start_timeout = 60s;  // Plain threads must be slowed down here, not refused.
    options.terminate_timeout = 60s;
    return options;
  }

  // What each fiber does: counts itself, once.
  struct Tally {
    explicit Tally(int fibers) : runs(fibers), latch(fibers) {}
    void Count(int i) {
      runs[i].fetch_add(1, std::memory_order_relaxed);
      latch.CountDown();
    }
    void ExpectEachOnce() {
      latch.Wait();
      for (const auto& count : runs) ASSERT_EQ(count.load(), 1);
    }
    std::vector<std::atomic<int>> runs;
    FiberLatch latch;
  };

  const RuntimeOf runtime_{SmallQueue()};
};

INSTANTIATE_TEST_SUITE_P(Shapes, Overflow,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(Overflow, StartedByOneFiber) {
  Tally tally(kFibers);
  Fiber([&] {
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(StartFiberDetached([&tally, i] { tally.Count(i); }));
    }
  }).Join();
  tally.ExpectEachOnce();
}

TEST_P(Overflow, StartedByManyFibersAtOnce) {
  constexpr int kSpawners = 100;
  Tally tally(kFibers);
  std::vector<Fiber> spawners;
  for (int s = 0; s < kSpawners; ++s) {
    spawners.emplace_back([&tally, s] {
      for (int i = s; i < kFibers; i += kSpawners) {
        ASSERT_TRUE(StartFiberDetached([&tally, i] { tally.Count(i); }));
      }
    });
  }
  for (Fiber& spawner : spawners) spawner.Join();
  tally.ExpectEachOnce();
}

// Peers deadlock here: all workers block in a start that waits for capacity.
TEST_P(Overflow, StartedByFibersThatStartFibers) {
  Tally tally(kFibers);
  std::atomic<int> next{0};
  std::function<void(int)> grow = [&](int depth) {
    for (int child = 0; child < 10; ++child) {
      if (depth > 0) {
        ASSERT_TRUE(StartFiberDetached([&grow, depth] { grow(depth - 1); }));
      } else if (const int i = next.fetch_add(1); i < kFibers) {
        tally.Count(i);
      }
    }
  };
  int depth = 0;
  for (int leaves = 10; leaves < kFibers; leaves *= 10) ++depth;
  Fiber([&] { grow(depth); }).Join();
  tally.ExpectEachOnce();
  EXPECT_EQ(TerminateRuntime(), 0U);  // There may be more leaves than `tally` wants.
}

TEST_P(Overflow, StartedByPlainThreads) {
  constexpr int kThreads = 4;
  Tally tally(kFibers);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&tally, t] {
      for (int i = t; i < kFibers; i += kThreads) {
        ASSERT_TRUE(StartFiberDetached([&tally, i] { tally.Count(i); }));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  tally.ExpectEachOnce();
}

TEST_P(Overflow, ReadiedByTimers) {
  Tally tally(kFibers);
  const auto at = std::chrono::steady_clock::now() + 50ms;  // All at once.
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&tally, at, i] {
      FiberSleepUntil(at);
      tally.Count(i);
    }));
  }
  tally.ExpectEachOnce();
}

TEST_P(Overflow, StartedByTimers) {
  constexpr int kTimers = kFibers / 10;
  Tally tally(kTimers);
  const auto at = std::chrono::steady_clock::now() + 20ms;
  for (int i = 0; i < kTimers; ++i) {
    SetFiberDetachedTimer(at, [&tally, i] { tally.Count(i); });
  }
  tally.ExpectEachOnce();
}

TEST_P(Overflow, AllWokenByOneEvent) {
  Tally tally(kFibers);
  FiberLatch waiting(kFibers);
  FiberEvent go;
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      waiting.CountDown();
      go.Wait();
      tally.Count(i);
    }));
  }
  waiting.Wait();
  go.Set();
  tally.ExpectEachOnce();
}

TEST_P(Overflow, EachYieldsIntoTheFullQueue) {
  constexpr int kYielders = 1000;
  Tally tally(kYielders);
  for (int i = 0; i < kYielders; ++i) {
    ASSERT_TRUE(StartFiberDetached([&tally, i] {
      for (int round = 0; round < 20; ++round) FiberYield();
      tally.Count(i);
    }));
  }
  tally.ExpectEachOnce();
}

TEST_P(Overflow, DispatchedByFibers) {
  Tally tally(kFibers);
  Fiber([&] {
    for (int i = 0; i < kFibers; ++i) {
      ASSERT_TRUE(StartFiberDetached({.launch_policy = Launch::Dispatch}, [&tally, i] { tally.Count(i); }));
    }
  }).Join();
  tally.ExpectEachOnce();
}

// Peers: a batch as large as the queue spins for ever.
TEST_P(Overflow, ABatchLargerThanTheQueue) {
  for (const bool from_fiber : {false, true}) {
    Tally tally(kFibers);
    const auto start = [&] {
      std::vector<std::function<void()>> batch;
      for (int i = 0; i < kFibers; ++i) batch.emplace_back([&tally, i] { tally.Count(i); });
      ASSERT_TRUE(BatchStartFiberDetached(std::move(batch)));
    };
    if (from_fiber) {
      Fiber(start).Join();
    } else {
      start();
    }
    tally.ExpectEachOnce();
  }
}

TEST(OverflowRefusal, APlainThreadIsRefusedInTheEndAndTheFunctionHasNotRun) {
  RuntimeOptions options = OptionsOf({1, 1});
  options.run_queue_size = 16;
  options.start_timeout = 20ms;
  const RuntimeOf runtime(options);
  // The only worker computes.
  std::atomic<bool> stop{false};
  FiberEvent computing;
  Fiber busy([&] {
    computing.Set();
    while (!stop) base::CpuRelax();
  });
  computing.Wait();
  auto shared = std::make_shared<std::atomic<int>>(0);
  int accepted = 0;
  while (StartFiberDetached([shared] { ++*shared; })) ++accepted;
  EXPECT_GE(accepted, 16);
  EXPECT_LE(accepted, 17);
  EXPECT_EQ(shared.use_count(), 1 + accepted);
  std::vector<std::function<void()>> batch(5, [shared] { ++*shared; });
  EXPECT_FALSE(BatchStartFiberDetached(std::move(batch)));
  EXPECT_FALSE(Fiber::TryStart({}, [shared] { ++*shared; }).has_value());
  try {
    Fiber([shared] { ++*shared; }).Join();
    ADD_FAILURE() << "it was started";
  } catch (const FiberNotStarted& refused) {
    EXPECT_EQ(refused.Why(), StartRefusal::kQueueFull);
  }
  stop = true;
  busy.Join();
  while (shared.use_count() != 1) std::this_thread::yield();
  EXPECT_EQ(*shared, accepted);
  Fiber([] {}).Join();
}

}  // namespace
}  // namespace weft::fiber
