// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How long ready fibers wait, by whatever way they go (counters.h), and what a group makes of it (IsOverloaded()). Time
// stands still unless a test moves it; a pause before each push makes it a sample (wait_samples.h).

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/counters.h"

#include "testing/manual_clock.h"
#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;
using testing::Countdown;
using testing::ManualClock;
using testing::WorkerGroup;

constexpr auto kPause = 1ms;

class ReadyWaitTest : public ::testing::TestWithParam<unsigned> {
 protected:
  unsigned workers() const { return GetParam(); }
  WaitHistogram waits() { return ReadCounts(group.group()).ready_wait; }

  // The first push of a thread is a sample.
  template <class F>
  static void InNewThread(F&& f) {
    std::thread(std::forward<F>(f)).join();
  }

  // Keeps all workers busy until Release().
  void Occupy() {
    Countdown running(workers());
    for (unsigned w = 0; w < workers(); ++w) {
      InNewThread([&] {
        ASSERT_TRUE(group.Start([&] {
          running.Done();
          while (occupied_.load()) std::this_thread::yield();
        }));
      });
    }
    ASSERT_TRUE(running.Wait());
  }
  void Release() { occupied_ = false; }

  ManualClock clock;
  WorkerGroup group{
      SchedulingGroup::Options{.workers = GetParam(), .run_queue_size = 16, .max_ready_wait = 5ms, .clock = &clock}};
  std::atomic<bool> occupied_{true};
};
INSTANTIATE_TEST_SUITE_P(Workers, ReadyWaitTest, ::testing::Values(1u, 2u, 4u),
                         [](const auto& info) { return std::to_string(info.param) + "Workers"; });

TEST_P(ReadyWaitTest, OfAFiberStartedByAThread) {
  Occupy();
  const WaitHistogram before = waits();
  EXPECT_EQ(before.samples(), workers());
  EXPECT_EQ(before.max(), 0ns);
  InNewThread([&] { ASSERT_TRUE(group.Start([] {})); });
  clock.Advance(70ms);
  Release();
  group.Drain();
  const WaitHistogram after = waits();
  EXPECT_EQ(after.samples(), workers() + 1);
  EXPECT_EQ(after.fibers(), workers() + 1);
  EXPECT_EQ(after.max(), 70ms);
  EXPECT_EQ(after.Percentile(0.5), 0ns);
}

TEST_P(ReadyWaitTest, OfABatchBeyondTheQueueByItsFirst) {
  Occupy();
  const std::uint64_t before = waits().samples();
  InNewThread([&] {
    std::vector<FiberEntity*> fibers;
    for (int i = 0; i < 200; ++i) fibers.push_back(NewFiber(&group.group(), {}, [] {}));
    ASSERT_TRUE(group.group().StartBatch(fibers.data(), fibers.size()));
  });
  EXPECT_GT(group.group().overflow_count(), 0u);
  clock.Advance(9ms);
  Release();
  group.Drain();
  EXPECT_GE(waits().samples(), before + 1);
  EXPECT_LE(waits().samples(), before + 200);
  EXPECT_EQ(waits().max(), 9ms);
}

TEST_P(ReadyWaitTest, OfAFiberThatIsWokenByAnother) {
  std::atomic<FiberEntity*> sleeper{nullptr};
  ASSERT_TRUE(group.Start([&] {
    FiberEntity* self = CurrentFiber();
    self->state().OnParking();
    sleeper = self;
    ParkPrepared(self);
  }));
  while (sleeper == nullptr || sleeper.load()->state().Load() != FiberPhase::kParked) std::this_thread::yield();
  // All workers are busy with fibers that go on after the wake-up, so that nobody takes it out of the slot.
  Countdown woken(1);
  Countdown running(workers());
  for (unsigned w = 0; w < workers(); ++w) {
    ASSERT_TRUE(group.Start([&, w] {
      running.Done();
      while (running.left() != 0) std::this_thread::yield();
      if (w == 0) {
        clock.Advance(kPause);
        Unpark(sleeper);
        woken.Done();
      }
      while (occupied_.load()) std::this_thread::yield();
    }));
  }
  ASSERT_TRUE(woken.Wait());
  const WaitHistogram before = waits();
  clock.Advance(33ms);
  Release();
  group.Drain();
  EXPECT_EQ(waits().samples(), before.samples() + 1);
  EXPECT_EQ(waits().max(), 33ms);
}

TEST_P(ReadyWaitTest, OfAFiberThatYields) {
  Occupy();
  // One yields while as many as there are workers wait behind it, each of which keeps its worker.
  std::atomic<bool> go_on{false};
  Countdown stuck(workers());
  InNewThread([&] {
    ASSERT_TRUE(group.Start([&] {
      clock.Advance(kPause);
      YieldCurrentFiber();
    }));
  });
  for (unsigned w = 0; w < workers(); ++w) {
    InNewThread([&] {
      ASSERT_TRUE(group.Start([&] {
        stuck.Done();
        while (!go_on.load()) std::this_thread::yield();
      }));
    });
  }
  Release();
  ASSERT_TRUE(stuck.Wait());
  const bool waits_still = group.group().queue_size() != 0;  // Else another worker was free for it in time.
  clock.Advance(44ms);
  go_on = true;
  group.Drain();
  if (workers() == 1) {
    EXPECT_TRUE(waits_still);
  }
  if (waits_still) {
    EXPECT_EQ(waits().max(), 44ms);
  }
}

// A fiber that a fiber starts: v2 has its own place for these.
TEST_P(ReadyWaitTest, OfAFiberStartedByAFiber) {
  Countdown running(workers());
  Countdown started(1);
  for (unsigned w = 0; w < workers(); ++w) {
    ASSERT_TRUE(group.Start([&, w] {
      running.Done();
      while (running.left() != 0) std::this_thread::yield();
      if (w == 0) {
        clock.Advance(kPause);
        ASSERT_TRUE(group.Start([] {}));
        started.Done();
      }
      while (occupied_.load()) std::this_thread::yield();
    }));
  }
  ASSERT_TRUE(started.Wait());
  const WaitHistogram before = waits();
  clock.Advance(21ms);
  Release();
  group.Drain();
  EXPECT_EQ(waits().samples(), before.samples() + 1);
  EXPECT_EQ(waits().max(), 21ms);
}

TEST_P(ReadyWaitTest, CountsAllThatBecameReadyAtAHighRate) {
  WorkerGroup roomy(SchedulingGroup::Options{.workers = workers(), .run_queue_size = 1024, .clock = &clock});
  constexpr int kFibers = 64;
  constexpr int kYields = WEFT_TSAN || WEFT_ASAN ? 4'000 : 20'000;
  // Time goes on as fast as fibers yield, some 100 ns each.
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(roomy.Start([&] {
      for (int y = 0; y < kYields; ++y) {
        clock.Advance(100ns);
        YieldCurrentFiber();
      }
    }));
  }
  roomy.Drain();
  const GroupCounts counts = ReadCounts(roomy.group());
  // What became ready was entered: by a switch, but for first fibers that took over a stack. (A fiber that yields while
  // nothing else is ready goes on, and neither of it happens.) 1 in 128 are 2,000 samples: a standard deviation of 2 %.
  const auto pushes = static_cast<double>(counts.Sum().switches);
  EXPECT_NEAR(static_cast<double>(counts.ready_wait.fibers()), pushes, 0.15 * pushes);
  EXPECT_LT(static_cast<double>(counts.ready_wait.samples()), pushes / 8);
}

TEST(ReadyWait, OfAStolenFiberIsCountedByTheThiefAndIsNotItsLoad) {
  ManualClock clock;
  WorkerGroup victim(
      SchedulingGroup::Options{.id = 0, .workers = 1, .run_queue_size = 64, .max_ready_wait = 5ms, .clock = &clock});
  std::atomic<bool> occupied{true};
  std::atomic<bool> running{false};
  ASSERT_TRUE(victim.Start([&] {
    running = true;
    while (occupied.load()) std::this_thread::yield();
  }));
  while (!running.load()) std::this_thread::yield();
  Countdown stolen(1);
  std::thread([&] { ASSERT_TRUE(victim.Start([&] { stolen.Done(); })); }).join();
  clock.Advance(50ms);
  {
    WorkerGroup thief(
        SchedulingGroup::Options{.id = 1, .workers = 1, .run_queue_size = 64, .max_ready_wait = 5ms, .clock = &clock},
        {{&victim.group(), 1}});
    ASSERT_TRUE(stolen.Wait());
    while (ReadCounts(thief.group()).Sum().finished == 0) std::this_thread::yield();
    EXPECT_EQ(ReadCounts(thief.group()).ready_wait.max(), 50ms);
    EXPECT_EQ(thief.group().ready_waits(0).fibers_own(), 0u);
    occupied = false;
    thief.Drain();
  }
}

// Twice as many fibers as workers, each of which runs for more than the limit.
TEST_P(ReadyWaitTest, AGroupThatHasMoreThanItCanDoIsOverloadedUntilItIsDone) {
  std::atomic<bool> enough{false};
  for (unsigned i = 0; i < 4 * workers(); ++i) {
    ASSERT_TRUE(group.Start([&] {
      while (!enough.load()) {
        clock.Advance(6ms);
        YieldCurrentFiber();
      }
    }));
  }
  while (!group.group().IsOverloaded()) std::this_thread::yield();
  EXPECT_GE(group.group().overload().times(), 1u);
  enough = true;
  group.Drain();
  // No time passes: that nothing is ready ends it.
  while (group.group().IsOverloaded()) std::this_thread::yield();
}

// OD3
TEST_P(ReadyWaitTest, AGroupWhoseWorkersAreAllStuckIsOverloaded) {
  Occupy();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(group.Start([] {}));
  while (!group.group().IsOverloaded()) {
    clock.Advance(1ms);
    std::this_thread::yield();
  }
  EXPECT_GT(ReadCounts(group.group()).oldest_ready, 5ms);
  EXPECT_EQ(ReadCounts(group.group()).ready, 10u);
  Release();
  group.Drain();
  while (group.group().IsOverloaded()) std::this_thread::yield();
  EXPECT_EQ(ReadCounts(group.group()).oldest_ready, 0ns);
}

}  // namespace
}  // namespace weft::scheduling_group
