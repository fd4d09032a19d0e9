// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_limiter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <thread>
#include <vector>

#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

const Fiber::Attributes kUnlessOverloaded{.refuse_if_overloaded = true};

// Waits for a certain event; the test's time limit is the limit.
template <class F>
void Until(F&& f) {
  while (!f()) std::this_thread::yield();
}

// Fibers that wait until they are let go.
class Waiters {
 public:
  ~Waiters() { LetGo(); }

  // False: refused.
  bool Add() {
    if (!StartFiberDetached(kUnlessOverloaded, [this] { Wait(); })) return false;
    ++count_;
    return true;
  }
  void AddAnyway() {
    ASSERT_TRUE(StartFiberDetached([this] { Wait(); }));
    ++count_;
  }
  void LetGo() {
    event_.Set();
    while (ended_.load() != count_.load()) std::this_thread::yield();
  }
  std::size_t count() const { return count_.load(); }

 private:
  void Wait() {
    event_.Wait();
    ++ended_;
  }

  std::atomic<std::size_t> count_{0};
  std::atomic<std::size_t> ended_{0};
  FiberEvent event_;
};

class FiberLimiterTest : public ::testing::TestWithParam<Shape> {
 protected:
  static RuntimeOptions WithLimits(std::chrono::milliseconds ready_wait, std::int64_t fibers) {
    RuntimeOptions options = OptionsOf(GetParam());
    options.limit_ready_wait = ready_wait;
    options.limit_fibers = fibers;
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Shapes, FiberLimiterTest, ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{2, 2}), &NameOf);

TEST_P(FiberLimiterTest, WithoutLimitsEverythingIsAdmittedAndCounted) {
  const RuntimeOf runtime(GetParam());
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(TryAdmit(), Admission::kAdmitted);
  Fiber([] {
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(TryAdmit(), Admission::kAdmitted);
    EXPECT_FALSE(IsOverloaded());
  }).Join();
  EXPECT_EQ(GetAdmissionCounts(), (AdmissionCounts{.admitted = 2000}));
}

// FL2
TEST_P(FiberLimiterTest, WhatAsksIsRefusedWhenThereAreTooManyFibers) {
  constexpr std::size_t kLimit = 400;
  const RuntimeOf runtime(WithLimits(0ms, kLimit));
  Waiters waiters;
  while (waiters.Add()) {
    ASSERT_LE(waiters.count(), kLimit + kLimit / 8);
  }
  EXPECT_GE(waiters.count(), kLimit);
  EXPECT_EQ(TryAdmit(), Admission::kTooManyFibers);
  EXPECT_TRUE(IsOverloaded());
  EXPECT_EQ(GetAdmissionCounts(),
            (AdmissionCounts{.admitted = waiters.count(), .refused_ready_wait = 0, .refused_fibers = 2}));
}

TEST_P(FiberLimiterTest, WhatDoesNotAskIsNotRefused) {
  const RuntimeOf runtime(WithLimits(0ms, 10));
  Waiters waiters;
  while (waiters.Add()) continue;
  for (int i = 0; i < 100; ++i) waiters.AddAnyway();
  Fiber([] {}).Join();
  std::vector<void (*)()> batch(10, [] {});
  EXPECT_TRUE(BatchStartFiberDetached(std::move(batch)));
  EXPECT_EQ(Fiber::TryStart(kUnlessOverloaded, [] {}), std::nullopt);
  try {
    Fiber(kUnlessOverloaded, [] {}).Join();
    ADD_FAILURE() << "it was started";
  } catch (const FiberNotStarted& refused) {
    EXPECT_EQ(refused.Why(), StartRefusal::kOverloaded);
  }
}

// FL1
TEST_P(FiberLimiterTest, FibersThatEndLetNewOnesIn) {
  constexpr std::size_t kLimit = 50;
  const RuntimeOf runtime(WithLimits(0ms, kLimit));
  for (int round = 0; round < 20; ++round) {
    Waiters waiters;
    Until([&] { return !waiters.Add(); });
    EXPECT_GE(waiters.count(), round == 0 ? kLimit : 1);
    waiters.LetGo();
    Until([] { return TryAdmit() == Admission::kAdmitted; });
  }
}

// FL2, by many threads at once.
TEST_P(FiberLimiterTest, ThreadsTogetherKeepToTheLimitOfFibers) {
  constexpr std::size_t kLimit = 800;
  const RuntimeOf runtime(WithLimits(0ms, kLimit));
  Waiters waiters;
  constexpr std::size_t kThreads = 4;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      while (waiters.Add()) continue;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(waiters.count(), kLimit);
  // Each may be about to start the one that it was admitted for.
  EXPECT_LE(waiters.count(), kLimit + kLimit / 8 + kThreads);
}

// Threads have counters of their own. Those of ended threads, and of too many threads at once, count too.
TEST_P(FiberLimiterTest, NoAnswerIsLostWhicheverThreadAsks) {
  const RuntimeOf runtime(WithLimits(0ms, 1'000'000));
  constexpr std::size_t kThreads = 100;
  constexpr std::uint64_t kEach = 500;
  for (int round = 0; round < 3; ++round) {
    std::atomic<std::size_t> there{0};
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        ASSERT_EQ(TryAdmit(), Admission::kAdmitted);
        ++there;
        Until([&] { return there.load() == kThreads; });
        for (std::uint64_t i = 1; i < kEach; ++i) ASSERT_EQ(TryAdmit(), Admission::kAdmitted);
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(GetAdmissionCounts().admitted, static_cast<std::uint64_t>(round + 1) * kThreads * kEach);
  }
}

// Fibers that are always ready, so many that each waits for ten times the limit.
class Burners {
 public:
  void Start(std::size_t count, const Fiber::Attributes& attributes = {}) {
    for (std::size_t i = 0; i < count; ++i) {
      running_.fetch_add(1);
      ASSERT_TRUE(StartFiberDetached(attributes, [this] {
        while (!enough_.load(std::memory_order_relaxed)) {
          const auto until = std::chrono::steady_clock::now() + 500us;
          while (std::chrono::steady_clock::now() < until) continue;
          FiberYield();
        }
        running_.fetch_sub(1);
      }));
    }
  }
  ~Burners() { Stop(); }
  void Stop() {
    enough_ = true;
    while (running_.load() != 0) std::this_thread::yield();
  }

 private:
  std::atomic<std::size_t> running_{0};
  std::atomic<bool> enough_{false};
};

TEST_P(FiberLimiterTest, WhatAsksIsRefusedWhileReadyFibersWaitTooLong) {
  const RuntimeOf runtime(WithLimits(1ms, 0));
  EXPECT_EQ(TryAdmit(), Admission::kAdmitted);
  Burners burners;
  const auto shape = GetParam();
  for (int g = 0; g < shape.groups; ++g) {
    burners.Start(static_cast<std::size_t>(20 * shape.workers),
                  {.scheduling_group = static_cast<std::size_t>(g), .scheduling_group_local = true});
  }
  Until([] { return TryAdmit() == Admission::kReadyWait; });
  Until([] { return IsOverloaded(); });
  Until([] { return !StartFiberDetached(kUnlessOverloaded, [] {}); });
  EXPECT_GE(GetAdmissionCounts().refused_ready_wait, 2u);
  EXPECT_EQ(GetAdmissionCounts().refused_fibers, 0u);
  // In a fiber of the group.
  std::atomic<bool> refused{false};
  ASSERT_TRUE(StartFiberDetached([&] {
    while (TryAdmit() != Admission::kReadyWait) FiberYield();
    refused = true;
  }));
  Until([&] { return refused.load(); });
  burners.Stop();
  // FL1: nobody else asked meanwhile, so no fiber ends it.
  Until([] { return TryAdmit() == Admission::kAdmitted; });
}

// Nobody makes a sample.
TEST_P(FiberLimiterTest, WhatAsksIsRefusedWhileAllWorkersAreStuck) {
  const RuntimeOf runtime(WithLimits(1ms, 0));
  const auto shape = GetParam();
  std::latch stuck(shape.groups * shape.workers);
  std::latch enough(1);
  std::atomic<int> ran{0};
  for (int g = 0; g < shape.groups; ++g) {
    const Fiber::Attributes here{.scheduling_group = static_cast<std::size_t>(g), .scheduling_group_local = true};
    for (int i = 0; i < shape.workers; ++i) {
      ASSERT_TRUE(StartFiberDetached(here, [&] {
        stuck.count_down();
        enough.wait();  // In the kernel.
      }));
    }
  }
  stuck.wait();
  for (int g = 0; g < shape.groups; ++g) {
    for (int i = 0; i < 130; ++i) {
      ASSERT_TRUE(StartFiberDetached({.scheduling_group = static_cast<std::size_t>(g), .scheduling_group_local = true},
                                     [&] { ++ran; }));
    }
  }
  Until([] { return IsOverloaded(); });
  EXPECT_EQ(TryAdmit(), Admission::kReadyWait);
  for (int i = 0; i < 30; ++i) EXPECT_FALSE(StartFiberDetached(kUnlessOverloaded, [] {}));
  for (const auto& group : GetSchedulingCounts()) {
    EXPECT_GT(group.oldest_ready, 1ms);
    EXPECT_EQ(group.ready, 130u);
  }
  enough.count_down();
  Until([] { return TryAdmit() == Admission::kAdmitted; });  // FL1
  Until([&] { return ran == 130 * shape.groups; });
}

TEST(FiberLimiter, AnOverloadedGroupDoesNotCloseTheOther) {
  RuntimeOptions options = OptionsOf({.workers = 1, .groups = 2});
  options.limit_ready_wait = 1ms;
  const RuntimeOf runtime(options);
  Burners burners;
  burners.Start(20, {.scheduling_group = 1, .scheduling_group_local = true});
  const auto start_in = [](std::size_t group) {
    return StartFiberDetached({.scheduling_group = group, .refuse_if_overloaded = true}, [] {});
  };
  Until([&] { return !start_in(1); });
  // Any group will do: each start goes to the one that is free.
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(TryAdmit(), Admission::kAdmitted);
    ASSERT_TRUE(start_in(0));
    ASSERT_TRUE(start_in(kUnspecifiedSchedulingGroup));
    ASSERT_TRUE(start_in(kNearestSchedulingGroup));
  }
}

// Where any group will do, none of another name does.
TEST(FiberLimiter, AnOverloadedNameIsNotHelpedByAnother) {
  RuntimeOptions options = NamedGroupsOf("latency:1,batch:1");
  options.limit_ready_wait = 1ms;
  const RuntimeOf runtime(options);
  const FiberAttributes batch{.scheduling_group = SchedulingGroupNamed("batch"), .refuse_if_overloaded = true};
  const FiberAttributes any{.scheduling_group = kUnspecifiedSchedulingGroup, .refuse_if_overloaded = true};
  {
    Burners burners;
    burners.Start(20, {.scheduling_group = SchedulingGroupNamed("latency")});
    Until([] { return !StartFiberDetached({.scheduling_group = 0, .refuse_if_overloaded = true}, [] {}); });
    int refused = 0;
    for (int i = 0; i < 1000 && refused == 0; ++i) {
      if (TryAdmit() == Admission::kReadyWait && !StartFiberDetached(any, [] {})) ++refused;
      std::this_thread::yield();
    }
    EXPECT_EQ(refused, 1);
    ASSERT_TRUE(StartFiberDetached(batch, [] {}));
    Fiber({.scheduling_group = batch.scheduling_group}, [&] {
      EXPECT_EQ(TryAdmit(), Admission::kAdmitted);
      EXPECT_TRUE(StartFiberDetached(any, [] {}));
    }).Join();
  }
  Burners burners;
  burners.Start(20, {.scheduling_group = batch.scheduling_group});
  Until([&] { return !StartFiberDetached(batch, [] {}); });
  Until([] { return TryAdmit() == Admission::kAdmitted; });
  EXPECT_TRUE(StartFiberDetached(any, [] {}));
}

TEST(FiberLimiter, AGroupOfTheSameNameHelps) {
  RuntimeOptions options = NamedGroupsOf("other:1,two:2");
  options.scheduling_group_size = 1;
  options.limit_ready_wait = 1ms;
  const RuntimeOf runtime(options);
  Burners burners;
  burners.Start(20, {.scheduling_group = 2, .scheduling_group_local = true});
  const auto start_in = [](std::size_t group) {
    return StartFiberDetached({.scheduling_group = group, .refuse_if_overloaded = true}, [] {});
  };
  Until([&] { return !start_in(2); });
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(start_in(SchedulingGroupNamed("two")));
}

TEST(FiberLimiter, CountsBeginAnewWithTheRuntime) {
  RuntimeOptions options = OptionsOf({});
  options.limit_fibers = 1;
  {
    const RuntimeOf runtime(options);
    Waiters waiters;
    EXPECT_TRUE(waiters.Add());
    EXPECT_FALSE(waiters.Add());
  }
  const RuntimeOf runtime(OptionsOf({}));
  EXPECT_EQ(GetAdmissionCounts(), AdmissionCounts());
  EXPECT_EQ(TryAdmit(), Admission::kAdmitted) << "the limit went with the runtime that had it";
}

TEST(FiberLimiter, UnfinishedFibersOfFormerRuntimesDoNotCount) {
  RuntimeOptions options = OptionsOf({});
  options.terminate_timeout = std::chrono::milliseconds(1);
  static auto* const never = new FiberEvent;
  StartRuntime(options);
  for (int i = 0; i < 5; ++i) Fiber([] { never->Wait(); }).Detach();
  EXPECT_EQ(TerminateRuntime(), std::size_t{5});
  options = OptionsOf({});
  options.limit_fibers = 2;
  const RuntimeOf runtime(options);
  EXPECT_EQ(GetFiberCount(), std::size_t{5});
  EXPECT_EQ(TryAdmit(), Admission::kAdmitted);
  Waiters waiters;
  EXPECT_TRUE(waiters.Add());
  EXPECT_TRUE(waiters.Add());
  EXPECT_FALSE(waiters.Add());
}

TEST(FiberLimiter, WhenTheRuntimeHasEndedItRefuses) {
  { const RuntimeOf runtime(OptionsOf({})); }
  EXPECT_EQ(TryAdmit(), Admission::kNoRuntime);
  EXPECT_TRUE(IsOverloaded());
  EXPECT_EQ(GetAdmissionCounts(), AdmissionCounts()) << "it is no answer of the limiter's";
}

TEST(FiberLimiter, AnswersHaveWords) {
  EXPECT_EQ(ToString(Admission::kNoRuntime), "no runtime");
  EXPECT_EQ(ToString(Admission::kAdmitted), "admitted");
  EXPECT_EQ(ToString(Admission::kReadyWait), "ready fibers wait too long");
  EXPECT_EQ(ToString(Admission::kTooManyFibers), "too many fibers");
}

TEST(FiberLimiterDeathTest, WithoutARuntimeItAbortsByName) {
  EXPECT_DEATH(static_cast<void>(TryAdmit()), "TryAdmit: the runtime does not run");
  EXPECT_DEATH(static_cast<void>(IsOverloaded()), "IsOverloaded: the runtime does not run");
}

// What GetSchedulingCounts() reports of waits.
TEST_P(FiberLimiterTest, TheSchedulerTellsHowLongReadyFibersWait) {
  const RuntimeOf runtime(GetParam());
  FiberLatch latch(1000);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      FiberYield();
      latch.CountDown();
    }));
  }
  latch.Wait();
  std::uint64_t samples = 0;
  for (const auto& group : GetSchedulingCounts()) {
    samples += group.ready_wait.samples();
    EXPECT_LE(group.ready_wait.Percentile(0.5), group.ready_wait.Percentile(0.99));
    EXPECT_LE(group.ready_wait.Percentile(0.99), group.ready_wait.max());
  }
  EXPECT_GT(samples, 0u);
}

}  // namespace
}  // namespace weft::fiber
