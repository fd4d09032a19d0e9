// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Bugs of other fiber libraries, each as a test named after what went wrong there, through the whole runtime.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

constexpr int kScale = WEFT_ASAN || WEFT_TSAN ? 10 : 1;

// So long that only a hang reaches it.
constexpr auto kForever = 20s;

// Rounds of a test for a rare event: so many, or as many as fit into this time.
class Rounds {
 public:
  explicit Rounds(int most) : left_(most / kScale) {}
  bool Next() { return --left_ >= 0 && (left_ % 64 != 0 || Steady::now() < until_); }

 private:
  int left_;
  const Steady::time_point until_ = Steady::now() + 2s;
};

// --- Scheduling ---

// A push and a check for sleepers, against the announcement of a sleep and a check of the queue: without full fences
// both sides may miss each other (3 times in 542,811 starts on one worker).
class LostWakeUp : public ::testing::TestWithParam<Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, LostWakeUp, ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{1, 2}),
                         &NameOf);

TEST_P(LostWakeUp, BetweenPushAndSleep) {
  const RuntimeOf runtime(GetParam());
  int i = 0;
  for (Rounds rounds(200'000); rounds.Next(); ++i) {
    FiberEvent ran;
    ASSERT_TRUE(StartFiberDetached([&ran] { ran.Set(); }));
    ASSERT_TRUE(ran.Wait(kForever)) << "after " << i << " starts";
    // From no pause to longer than a worker spins before it sleeps.
    for (int pause = i % 128; pause > 0; --pause) base::CpuRelax();
  }
}

TEST_P(LostWakeUp, OfAParkedFiber) {
  const RuntimeOf runtime(GetParam());
  FiberEvent ping;
  FiberEvent pong;
  std::atomic<bool> stop{false};
  Fiber fiber([&] {
    while (!stop) {
      ping.Wait();
      ping.Reset();
      pong.Set();
    }
  });
  int i = 0;
  for (Rounds rounds(100'000); rounds.Next(); ++i) {
    ping.Set();
    ASSERT_TRUE(pong.Wait(kForever)) << "after " << i << " rounds";
    pong.Reset();
    for (int pause = i % 128; pause > 0; --pause) base::CpuRelax();
  }
  stop = true;
  ping.Set();
  fiber.Join();
}

// `mask &= ~(1 << ffsll(mask))` cleared the wrong bits: n fibers were pushed, too few workers woken, and the rest slept
// beside a full queue.
TEST(BatchWake, ChoosesWorkersThatSleepAndEnoughOfThem) {
  for (const int workers : {2, 4, 8, 33, 64}) {
    const RuntimeOf runtime(Shape{workers, 1});
    for (int round = 0; round < 20; ++round) {
      // Each needs a worker of its own: they wait for each other and keep theirs.
      const int together = std::min(workers, 8);
      std::atomic<int> arrived{0};
      FiberLatch done(together);
      const auto body = [&] {
        ++arrived;
        const auto give_up = Steady::now() + kForever;
        while (arrived < together && Steady::now() < give_up) std::this_thread::yield();
        EXPECT_EQ(arrived, together) << "a worker slept beside a full queue";
        done.CountDown();
      };
      ASSERT_TRUE(BatchStartFiberDetached(std::vector(static_cast<std::size_t>(together), body)));
      done.Wait();
    }
  }
}

// Computes in group 0 without ever suspending: its worker does nothing else.
class Hog {
 public:
  Hog() {
    FiberEvent busy;
    fiber_ = Fiber({.scheduling_group = 0, .scheduling_group_local = true}, [&] {
      busy.Set();
      while (!stop_.load(std::memory_order_relaxed)) base::CpuRelax();
    });
    busy.Wait();
  }
  ~Hog() { Stop(); }

  void Stop() {
    stop_.store(true, std::memory_order_relaxed);
    if (fiber_.Joinable()) fiber_.Join();
  }

 private:
  std::atomic<bool> stop_{false};
  Fiber fiber_;
};

// `return` instead of `continue`: no group ever stole from another of its node.
TEST(Stealing, BetweenGroupsOfOneNodeIsOn) {
  const RuntimeOf runtime(Shape{1, 2});
  // All fibers are started in group 0, whose only worker is kept busy: group 1 must run them.
  Hog hog;
  FiberLatch ran(100);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(StartFiberDetached({.scheduling_group = 0}, [&] { ran.CountDown(); }));
  }
  EXPECT_TRUE(ran.Wait(kForever));
  hog.Stop();
  ran.Wait();
}

// Stealing only happened on the way to sleep: a sleeping group stayed asleep whatever its neighbour had to do.
TEST(Stealing, WakesWorkersThatSleepAlready) {
  const RuntimeOf runtime(Shape{1, 2});
  FiberSleepFor(50ms);  // Time for both groups to fall asleep.
  Hog hog;
  for (int i = 0; i < 20; ++i) {
    FiberSleepFor(2ms);
    auto ran = std::make_shared<FiberEvent>();
    ASSERT_TRUE(StartFiberDetached({.scheduling_group = 0}, [ran] { ran->Set(); }));
    ASSERT_TRUE(ran->Wait(kForever)) << "nobody helped the loaded group";
  }
  hog.Stop();
}

// One local fiber at the head of the queue hid all stealable ones behind it.
TEST(Stealing, GoesPastLocalFibersAtTheHeadOfTheQueue) {
  RuntimeOptions options = OptionsOf({1, 2});
  options.work_stealing_ratio = 1;  // A steal is requested for each fiber, not only for the first that waits.
  const RuntimeOf runtime(options);
  Hog hog;
  std::vector<Fiber> locals;
  for (int i = 0; i < 10; ++i) {
    locals.emplace_back(Fiber::Attributes{.scheduling_group = 0, .scheduling_group_local = true},
                        [] { EXPECT_EQ(GetCurrentSchedulingGroupIndex(), 0U); });
  }
  FiberLatch ran(10);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(StartFiberDetached({.scheduling_group = 0}, [&] { ran.CountDown(); }));
  }
  EXPECT_TRUE(ran.Wait(kForever));
  hog.Stop();
  ran.Wait();
  for (Fiber& local : locals) local.Join();
}

// `next_steal += 0` looped for ever.
TEST(Stealing, RatioZeroIsOffAndDoesNotLoop) {
  RuntimeOptions options = OptionsOf({1, 2});
  options.work_stealing_ratio = 0;
  const RuntimeOf runtime(options);
  for (std::size_t group = 0; group < 2; ++group) {
    for (int i = 0; i < 100; ++i) {
      Fiber({.scheduling_group = group}, [group] {
        EXPECT_EQ(GetCurrentSchedulingGroupIndex(), group);
        FiberYield();
        FiberSleepFor(10us);
        EXPECT_EQ(GetCurrentSchedulingGroupIndex(), group);
      }).Join();
    }
  }
}

// Dispatch into another group ran the new fiber on the caller's worker and queued the caller there: a local fiber left
// its group.
TEST(Dispatch, IntoAnotherGroupDoesNotMoveTheCaller) {
  const RuntimeOf runtime(Shape{2, 3});
  for (std::size_t home = 0; home < 3; ++home) {
    Fiber({.scheduling_group = home, .scheduling_group_local = true}, [home] {
      for (int i = 0; i < 100; ++i) {
        for (std::size_t target = 0; target < 3; ++target) {
          Fiber other({.launch_policy = Launch::Dispatch, .scheduling_group = target, .scheduling_group_local = true},
                      [target] { ASSERT_EQ(GetCurrentSchedulingGroupIndex(), target); });
          ASSERT_EQ(GetCurrentSchedulingGroupIndex(), home);
          other.Join();
          ASSERT_EQ(GetCurrentSchedulingGroupIndex(), home);
        }
      }
    }).Join();
  }
}

// Waking a fiber into a full queue spun for ever, or dropped it.
TEST(FullQueue, WakingAFiberIntoItNeitherSpinsNorLosesIt) {
  RuntimeOptions options = OptionsOf({1, 1});
  options.run_queue_size = 16;
  const RuntimeOf runtime(options);
  constexpr int kFibers = 500;
  std::vector<FiberEvent> events(kFibers);
  std::vector<Fiber> fibers;
  FiberLatch waiting(kFibers);
  for (FiberEvent& event : events) {
    fibers.emplace_back([&] {
      waiting.CountDown();
      event.Wait();
    });
  }
  waiting.Wait();
  // A fiber wakes them and does not let them run, so the queue is full for most of them.
  Fiber([&] {
    for (FiberEvent& event : events) event.Set();
  }).Join();
  for (Fiber& fiber : fibers) ASSERT_TRUE(fiber.Join(kForever));
}

// --- Planning ---

// On one node without an explicit group size there was one group of 8 to 15 workers, whatever the machine.
TEST(Planning, OneNodeWithManyCpusGetsAWorkerForEach) {
  RuntimeOptions options;
  options.topology = "numa:1 core:64 pu:1";
  const RuntimeOf runtime(options);
  EXPECT_EQ(GetConcurrencyHint(), 64U);
  EXPECT_GE(GetSchedulingGroupCount(), 4U);
  EXPECT_LE(GetSchedulingGroupSize(), 15U);
  EXPECT_GE(GetSchedulingGroupSize(), 8U);
}

// Node ordinals were used for the kernel's ids.
TEST(Planning, SparseNodeNumbersAreTheKernels) {
  RuntimeOptions options;
  options.topology = "numa:2(indexes=3,5) core:8 pu:1";
  const RuntimeOf runtime(options);
  ASSERT_EQ(GetSchedulingGroupCount(), 2U);
  const std::set<int> nodes{GetSchedulingGroupAssignedNode(0), GetSchedulingGroupAssignedNode(1)};
  EXPECT_EQ(nodes, (std::set<int>{3, 5}));
}

// `numa_aware: false` meant "detect".
TEST(Planning, NumaAwareOffIsOff) {
  RuntimeOptions options;
  options.topology = "numa:4 core:8 pu:1";
  options.numa_aware = NumaAware::kOff;
  const RuntimeOf runtime(options);
  for (std::size_t i = 0; i < GetSchedulingGroupCount(); ++i) EXPECT_EQ(GetSchedulingGroupAssignedNode(i), -1);
}

// Caches of CPUs, nodes and groups were filled once per process, so the second runtime used the first one's.
TEST(Restart, NothingOfTheFormerRuntimeIsKept) {
  for (const int groups : {3, 1, 2}) {
    const RuntimeOf runtime(Shape{1, groups});
    std::vector<std::atomic<int>> ran(static_cast<std::size_t>(groups));
    std::vector<Fiber> fibers;
    for (int i = 0; i < 4 * groups; ++i) {  // The same plain thread in each runtime.
      fibers.emplace_back(Fiber::Attributes{.scheduling_group_local = true},
                          [&] { ++ran[GetCurrentSchedulingGroupIndex()]; });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    for (const auto& count : ran) EXPECT_EQ(count, 4);
  }
}

// --- The end ---

// Fibers that had not ended with the program were leaked silently, or never woken and always waited for.
TEST(End, FibersLeftParkedAreReportedNotForgotten) {
  std::mutex mutex;
  std::string logged;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
    const std::scoped_lock lock(mutex);
    logged.append(text).append("\n");
  });
  RuntimeOptions options = OptionsOf({2, 1});
  options.terminate_timeout = 20ms;
  StartRuntime(options);
  static auto* const never = new FiberEvent;
  FiberEvent waits;
  ASSERT_TRUE(StartFiberDetached({.name = "forgotten"}, [&waits] {
    waits.Set();
    never->Wait();
  }));
  waits.Wait();
  EXPECT_EQ(TerminateRuntime(), 1U);
  base::SetLogSink(nullptr);
  EXPECT_NE(logged.find("fiber 'forgotten' (id "), std::string::npos) << logged;
}

// --- Primitives, under the real scheduler ---

// The last CountDown() touched the latch after it had released the waiter.
TEST(Lifetime, ALatchMayGoWhileItIsBeingSignalled) {
  const RuntimeOf runtime(Shape{4, 1});
  for (int i = 0; i < 20'000 / kScale; ++i) {
    auto latch = std::make_unique<FiberLatch>(1);
    ASSERT_TRUE(StartFiberDetached([&latch = *latch] { latch.CountDown(); }));
    latch->Wait();
    latch.reset();
  }
  Fiber([] {
    for (int i = 0; i < 20'000 / kScale; ++i) {
      auto latch = std::make_unique<FiberLatch>(1);
      ASSERT_TRUE(StartFiberDetached([&latch = *latch] { latch.CountDown(); }));
      latch->Wait();
      latch.reset();
    }
  }).Join();
}

// A notification between a thread's enqueueing and its reading of the futex was lost; a waiter that timed out freed its
// stack under the notifier.
TEST(ConditionVariable, NotificationsToThreadsAreNotLostAndTimeOutsAreSafe) {
  const RuntimeOf runtime(Shape{2, 1});
  FiberMutex mutex;
  FiberConditionVariable changed;
  int tickets = 0;
  std::atomic<bool> stop{false};
  // Notifies without the mutex, right after releasing it.
  Fiber notifier([&] {
    while (!stop) {
      {
        const std::scoped_lock lock(mutex);
        ++tickets;
      }
      changed.notify_one();
      FiberYield();
    }
  });
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 3000 / kScale; ++i) {
        std::unique_lock lock(mutex);
        if (t == 0) {
          static_cast<void>(changed.wait_for(lock, std::chrono::microseconds(i % 100), [&] { return tickets > 0; }));
        } else {
          ASSERT_TRUE(changed.wait_for(lock, kForever, [&] { return tickets > 0; }));
        }
        if (tickets > 0) --tickets;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  notifier.Join();
}

// The sequence was not initialised: readers might spin for ever.
TEST(SeqLock, StartsWithASequenceThatReadersAccept) {
  for (int i = 0; i < 100; ++i) {
    alignas(FiberSeqLock) std::array<std::byte, sizeof(FiberSeqLock)> dirty;
    dirty.fill(std::byte{0xff});
    auto* const lock = new (dirty.data()) FiberSeqLock;
    const unsigned sequence = lock->ReadSeqBegin();
    EXPECT_EQ(lock->ReadSeqRetry(sequence), 0U);
    lock->~FiberSeqLock();
  }
}

// The guard against overlapping was never called: a slow callback ran several times at once, and late runs came in
// bursts.
TEST(PeriodicTimer, NeverOverlapsItselfAndDoesNotCatchUpInBursts) {
  const RuntimeOf runtime(Shape{4, 1});
  std::atomic<int> inside{0};
  std::atomic<int> runs{0};
  FiberLatch five(5);
  const auto begin = Steady::now();
  const std::uint64_t timer = SetFiberTimer(begin, 1ms, [&] {
    EXPECT_EQ(++inside, 1);
    FiberSleepFor(10ms);  // Ten intervals.
    --inside;
    if (++runs <= 5) five.CountDown();
  });
  five.Wait();
  EXPECT_GE(Steady::now() - begin, 50ms);
  KillFiberTimerAndWait(timer);
  // Each run takes 10 ms, and they do not overlap, however late this thread checks.
  EXPECT_LE(runs, (Steady::now() - begin) / 10ms + 1);
}

// Stop() woke one waiter; the others hung, and the queue's items were lost.
TEST(BoundedQueue, StopWakesAllAndDropsNothing) {
  const RuntimeOf runtime(Shape{2, 1});
  FiberBlockingBoundedQueue<int> queue(4);
  std::atomic<int> got{0};
  std::vector<Fiber> poppers;
  for (int i = 0; i < 10; ++i) {
    poppers.emplace_back([&] {
      int item = 0;
      while (queue.Pop(item)) got += item;
    });
  }
  std::thread thread([&] {
    int item = 0;
    while (queue.Pop(item)) got += item;
  });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(queue.Push(1));
  queue.Stop();
  for (Fiber& popper : poppers) ASSERT_TRUE(popper.Join(kForever));
  thread.join();
  EXPECT_EQ(got, 100);
}

// --- Outside of fibers ---

// These dereferenced null in plain threads.
TEST(PlainThreads, MayUseWhatBelongsToFibers) {
  const RuntimeOf runtime(Shape{1, 1});
  static FiberLocal<int> local;
  std::thread([] {
    EXPECT_EQ(*local, 0);
    *local = 3;
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
    FiberExecutionContext::Create()->Execute([] { EXPECT_NE(FiberExecutionContext::Current(), nullptr); });
    FiberEvent fired;
    SetFiberDetachedTimer(Steady::now(), [&] { fired.Set(); });
    fired.Wait();
    FiberSleepFor(1ms);
    Fiber(Launch::Dispatch, [] {}).Join();
    EXPECT_EQ(*local, 3);
  }).join();
}

// A timer's own thread, too.
TEST(PlainThreads, TheTimerThreadMayUseWhatBelongsToFibers) {
  const RuntimeOf runtime(Shape{1, 1});
  static FiberLocal<int> local;
  FiberEvent fired;
  EnableFiberTimer(CreateFiberTimer(Steady::now(), [&] {
    *local = 1;
    EXPECT_EQ(FiberExecutionContext::Current(), nullptr);
    EXPECT_TRUE(StartFiberDetached([&] { fired.Set(); }));
  }));
  fired.Wait();
}

// --- Stacks ---

// Two mappings per guarded stack: at about 32,000 the process had no more (vm.max_map_count), and died or ran without
// guards.
TEST(Stacks, AHundredThousandParkedFibersDoNotExhaustTheMappings) {
  const RuntimeOf runtime(Shape{2, 1});
  constexpr int kFibers = 100'000 / kScale;
  FiberLatch waiting(kFibers);
  FiberLatch done(kFibers);
  FiberEvent go;
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      waiting.CountDown();
      go.Wait();
      done.CountDown();
    }));
  }
  ASSERT_TRUE(waiting.Wait(kForever));
  EXPECT_GE(GetFiberCount(), static_cast<std::size_t>(kFibers));
  go.Set();
  ASSERT_TRUE(done.Wait(kForever));
}

}  // namespace
}  // namespace weft::fiber
