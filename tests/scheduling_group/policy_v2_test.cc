// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What is v2's own; for the rest see policy_test.cc.

#include "weft/scheduling_group/policy/policy_v2.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/scheduling_group/worker/time_slice.h"

#include "scheduling_group/policy_fixture.h"
#include "testing/manual_clock.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kFresh = 256;   // so many fibers that its fibers have started a worker keeps
constexpr std::size_t kTurns = 1024;  // and so many that yielded or were woken
constexpr std::size_t kMoved = 128;

using namespace std::chrono_literals;
using testing::ManualClock;

using PolicyV2Test = PolicyFixture;

TEST_F(PolicyV2Test, AWorkerRunsTheNewestOfWhatItsFibersStartedAndAnIdleOneTakesTheOlderHalf) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) ASSERT_TRUE(policy.TryPushNew(fiber, 0));
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), f[0]);
  for (int i = 4; i >= 1; --i) EXPECT_EQ(Pop(policy, 1), f[i]);
  EXPECT_EQ(Pop(policy, 1), nullptr);
  for (int i = 9; i >= 5; --i) EXPECT_EQ(Pop(policy, 0), f[i]);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV2Test, FibersThatYieldTakeTurnsAndAnIdleWorkerTakesTheOlderHalf) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) policy.Push(fiber, kYielded, 0);
  SpinMemory memory;
  EXPECT_EQ(policy.PopFromBusyWorkers(1, &memory), f[0]);
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(Pop(policy, 1), f[i]);
  for (int i = 5; i <= 9; ++i) EXPECT_EQ(Pop(policy, 0), f[i]);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV2Test, OfWhatAWorkerCannotKeepTheOldestGoToTheGlobalQueue) {
  for (const ReadyReason reason : {kStarted, kYielded}) {
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
    const auto f = NewFibers((reason == kStarted ? kFresh : kTurns) + 1);
    for (FiberEntity* fiber : f) policy.Push(fiber, reason, 0);
    EXPECT_EQ(policy.Size(), f.size());
    EXPECT_EQ(policy.OverflowCount(), 0u);
    EXPECT_TRUE(policy.MustNotify(0));  // While they were moved nobody saw them.
    EXPECT_FALSE(policy.MustNotify(0));
    // Another worker gets them without taking them from that one.
    std::set<FiberEntity*> moved;
    while (FiberEntity* fiber = Pop(policy, 1)) moved.insert(fiber);
    EXPECT_EQ(moved, std::set<FiberEntity*>(f.begin(), f.begin() + kMoved));
    while (Pop(policy, 0) != nullptr) {
    }
  }
}

TEST_F(PolicyV2Test, ANewFiberIsRefusedWhenItsWorkerAndTheGlobalQueueAreFullButAReadyOneNever) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 16});
  const auto f = NewFibers(kFresh + 17 + 2 * kTurns);
  std::size_t next = 0;
  while (next < kFresh + 16) ASSERT_TRUE(policy.TryPushNew(f[next++], 0));
  EXPECT_TRUE(policy.Full());
  EXPECT_FALSE(policy.TryPushNew(f[next], 0));
  EXPECT_FALSE(policy.TryPushNew(f[next], kNoWorker));
  EXPECT_EQ(policy.OverflowCount(), 0u);
  while (next < f.size()) policy.Push(f[next++], kStarted, 0);
  EXPECT_EQ(policy.Size(), f.size());
  std::set<FiberEntity*> popped;
  while (FiberEntity* fiber = Pop(policy, 0)) EXPECT_TRUE(popped.insert(fiber).second);
  EXPECT_EQ(popped.size(), f.size());
}

TEST_F(PolicyV2Test, TheOldestFiberIsServedThoughThereIsAlwaysANewerOne) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto old = NewFibers(3);
  for (FiberEntity* fiber : old) policy.Push(fiber, kStarted, 0);
  FiberEntity* chain = New();
  for (FiberEntity* expected : old) {
    EXPECT_EQ(Insist([&]() -> FiberEntity* {
                policy.Push(chain, kStarted, 0);
                FiberEntity* fiber = Pop(policy, 0);
                if (fiber == chain) return nullptr;
                EXPECT_EQ(Pop(policy, 0), chain);
                return fiber;
              }),
              expected);
  }
}

// It waited 9 ms. With and without a stuck worker, which the same checks are for.
TEST_F(PolicyV2Test, TheOldestOfWhatFibersStartedRunsWithinAMillisecondOrEightTicks) {
  for (const bool other_is_stuck : {false, true}) {
    for (const std::chrono::nanoseconds run : {100ns, 10'000ns, 100'000ns, 1'000'000ns, 3'000'000ns}) {
      SCOPED_TRACE(std::to_string(run.count()) + (other_is_stuck ? " ns, stuck" : " ns"));
      ManualClock clock;
      PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
      FiberEntity* oldest = New();
      FiberEntity* newest = New();
      FiberEntity* stuck = New();
      if (other_is_stuck) {
        (void)Pop(policy, 1);  // It was there once.
        policy.Push(stuck, kStarted, 1);
      }
      policy.Push(oldest, kStarted, 0);
      policy.Push(newest, kStarted, 0);
      auto waits_since = clock.now();
      int ticks = 0;
      for (int served = 0; served < 20;) {
        FiberEntity* fiber = Pop(policy, 0);
        ++ticks;
        ASSERT_NE(fiber, nullptr);
        if (fiber == stuck) {
          policy.Push(stuck, kStarted, 1);
        } else if (fiber == oldest) {
          // A check every 100 us, of which each second one is for this, and those by turns where workers are stuck.
          const auto limit = 1ms + (other_is_stuck ? 400us : 200us) + 2 * run;
          if (served > 0) {
            EXPECT_TRUE(clock.now() - waits_since <= limit || ticks <= 8) << ticks << " ticks";
          }
          ++served;
          ticks = 0;
          waits_since = clock.now();
          // Again below the other one.
          ASSERT_EQ(Pop(policy, 0), newest);
          policy.Push(oldest, kStarted, 0);
          policy.Push(newest, kStarted, 0);
        } else {
          policy.Push(fiber, kStarted, 0);  // It has started another one, and ended.
        }
        clock.Advance(run);
        ASSERT_LT(ticks, 10'000'000) << "it starves";
      }
      while (Pop(policy, 0) != nullptr || Pop(policy, 1) != nullptr) {
      }
    }
  }
}

TEST_F(PolicyV2Test, WhatWaitsAtAWorkerThatRunsAFiberForLongIsTakenThoughNobodyIsIdle) {
  for (const ReadyReason reason : {kStarted, kYielded, kWoken}) {
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
    (void)Pop(policy, 0);  // It was there once.
    FiberEntity* stuck = New();
    policy.Push(stuck, reason, 0);  // And worker 0 does not come back.
    FiberEntity* busy = New();
    policy.Push(busy, kYielded, 1);
    EXPECT_EQ(Insist([&]() -> FiberEntity* {
                FiberEntity* fiber = Pop(policy, 1);
                if (fiber == stuck) return fiber;
                policy.Push(fiber, kYielded, 1);
                return nullptr;
              }),
              stuck);
    EXPECT_EQ(Pop(policy, 1), busy);
  }
}

// The last of twenty began after 20 ms, when the long one had ended.
TEST_F(PolicyV2Test, AllThatALongFiberHasStartedBeginElsewhereWithinAMillisecond) {
  for (const std::chrono::nanoseconds run : {1'000ns, 10'000ns, 50'000ns}) {
    SCOPED_TRACE(std::to_string(run.count()) + " ns");
    ManualClock clock;
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
    (void)Pop(policy, 0);  // It was there once.
    FiberEntity* busy = New();
    policy.Push(busy, kYielded, 1);
    // The other one has always looked around a moment ago.
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(Pop(policy, 1), busy);
      policy.Push(busy, kYielded, 1);
      clock.Advance(run);
    }
    std::vector<FiberEntity*> left = NewFibers(20);
    for (FiberEntity* fiber : left) policy.Push(fiber, kStarted, 0);  // And worker 0 does not come back.
    const auto since = clock.now();
    while (!left.empty()) {
      FiberEntity* fiber = Pop(policy, 1);
      ASSERT_NE(fiber, nullptr);
      if (std::erase(left, fiber) == 0) policy.Push(fiber, kYielded, 1);
      clock.Advance(run);
      ASSERT_LT(clock.now() - since, 10s) << left.size() << " are left where they were";
    }
    EXPECT_LE(clock.now() - since, 1ms + 40 * run);
    EXPECT_EQ(Pop(policy, 1), busy);
  }
}

// It counted as idle each time, and never looked.
TEST_F(PolicyV2Test, WhatWaitsAtAWorkerThatRunsAFiberForLongIsTakenByOneThatHasASingleFiber) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  (void)Pop(policy, 0);
  FiberEntity* stuck = New();
  policy.Push(stuck, kStarted, 0);  // And worker 0 does not come back.
  EXPECT_EQ(Insist([&] { return Pop(policy, 1); }), stuck);
}

// 61 ticks of fibers that run for a millisecond would be 61 ms.
TEST_F(PolicyV2Test, WhereFibersRunForLongTheGlobalQueueIsCheckedMoreOften) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto f = NewFibers(10);
  for (FiberEntity* fiber : f) policy.Push(fiber, kYielded, 0);
  auto run_next = [&] {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
    while (std::chrono::steady_clock::now() < until) {
    }
    FiberEntity* fiber = Pop(policy, 0);
    policy.Push(fiber, kYielded, 0);
    return fiber;
  };
  for (int i = 0; i < 70; ++i) run_next();
  FiberEntity* outside = New();
  ASSERT_TRUE(policy.TryPushNew(outside, kNoWorker));
  int ticks = 1;
  while (run_next() != outside) ASSERT_LT(++ticks, 8);
  while (Pop(policy, 0) != nullptr) {
  }
}

// Workers that run fibers which yield, by a clock of our own: each runs one fiber after the other, as fast as it can.
class YieldingFibers {
 public:
  // When a worker has its processor, by `turns` of 3 ms that go around.
  struct Processor {
    unsigned turn = 0;
    unsigned turns = 1;
    unsigned slowness = 1;
  };

  YieldingFibers(SchedulingPolicy& policy, ManualClock& clock, std::vector<Processor> processors)
      : policy_(policy), clock_(clock), begin_(clock.now()) {
    for (const Processor& processor : processors) workers_.push_back({processor, begin_, nullptr, {}});
  }

  void Add(FiberEntity* fiber, std::chrono::nanoseconds run) {
    fibers_[fiber].run = run;
    policy_.Push(fiber, ReadyReason::kStarted, 0);
  }

  // Until so much time has passed, or a fiber has had `most_turns`.
  void Run(std::chrono::nanoseconds time, int most_turns) {
    for (auto& [entity, fiber] : fibers_) fiber.turns = 0;
    longest_gap_ = {};
    for (const auto end = clock_.now() + time;;) {
      Worker& worker =
          *std::min_element(workers_.begin(), workers_.end(), [](auto& a, auto& b) { return a.next_at < b.next_at; });
      if (worker.next_at >= end) break;
      clock_.Set(worker.next_at);
      const auto index = static_cast<unsigned>(&worker - workers_.data());
      if (worker.runs != nullptr) policy_.Push(worker.runs, ReadyReason::kYielded, static_cast<int>(index));
      bool must_notify = false;
      worker.runs = policy_.Pop(index, &must_notify);
      if (worker.runs == nullptr) worker.runs = policy_.PopFromBusyWorkers(index, &worker.memory);
      std::chrono::nanoseconds run = 1us;
      if (worker.runs != nullptr) {
        Fiber& fiber = fibers_.at(worker.runs);
        if (++fiber.turns == most_turns) break;
        if (fiber.turns > 1) longest_gap_ = std::max(longest_gap_, worker.next_at - fiber.ran_at);
        fiber.ran_at = worker.next_at;
        run = fiber.run;
      }
      worker.next_at = After(worker, run);
    }
  }

  double Ratio() const {
    const auto [least, most] = std::minmax_element(fibers_.begin(), fibers_.end(),
                                                   [](auto& a, auto& b) { return a.second.turns < b.second.turns; });
    return most->second.turns / std::max(0.1, static_cast<double>(least->second.turns));
  }
  int MeanTurns() const {
    int sum = 0;
    for (const auto& [entity, fiber] : fibers_) sum += fiber.turns;
    return std::max(1, sum / static_cast<int>(fibers_.size()));
  }
  std::chrono::nanoseconds longest_gap() const { return longest_gap_; }
  std::string Turns() const {
    std::set<int> sorted;
    for (const auto& [entity, fiber] : fibers_) sorted.insert(fiber.turns);
    return std::to_string(*sorted.begin()) + " to " + std::to_string(*sorted.rbegin());
  }

 private:
  struct Fiber {
    std::chrono::nanoseconds run{};
    int turns = 0;
    ManualClock::TimePoint ran_at;
  };
  struct Worker {
    Processor processor;
    ManualClock::TimePoint next_at;
    FiberEntity* runs = nullptr;
    SpinMemory memory;
  };

  ManualClock::TimePoint After(const Worker& worker, std::chrono::nanoseconds run) const {
    constexpr std::chrono::nanoseconds kTurn = 3ms;
    const auto& [turn, turns, slowness] = worker.processor;
    auto at = clock_.now();
    for (run *= slowness;;) {
      const auto since = at - begin_;
      const std::chrono::nanoseconds left = kTurn - since % kTurn;
      const bool has_it = since / kTurn % turns == turn;
      if (has_it && run <= left) return at + run;
      if (has_it) run -= left;
      at += left;
    }
  }

  SchedulingPolicy& policy_;
  ManualClock& clock_;
  const ManualClock::TimePoint begin_;
  std::vector<Worker> workers_;
  std::map<FiberEntity*, Fiber> fibers_;
  std::chrono::nanoseconds longest_gap_{};
};

// 8 workers, 100 fibers that yield and 100 that compute for a millisecond had 5 to 597 turns: each worker kept what it
// once had, and those with few of the long ones went around fast.
TEST_F(PolicyV2Test, FibersThatYieldHaveAboutAsManyTurnsAsOthersWhereverTheyAreAndHoweverFastTheirWorkers) {
  enum class Workers { kAlike, kFourPerProcessor, kOneToEightTimesSlower };
  // One thread and a clock that stands still: a sanitizer sees no more in the shorter runs, which have more turns.
  const std::vector<std::chrono::nanoseconds> runs =
      WEFT_ASAN || WEFT_TSAN ? std::vector{1'000'000ns} : std::vector{1'000'000ns, 100'000ns, 20'000ns};
  for (const std::chrono::nanoseconds run : runs) {
    for (const Workers kind : {Workers::kAlike, Workers::kFourPerProcessor, Workers::kOneToEightTimesSlower}) {
      SCOPED_TRACE(std::to_string(run.count()) + " ns, kind of workers " + std::to_string(static_cast<int>(kind)));
      std::vector<YieldingFibers::Processor> processors(8);
      for (unsigned w = 0; w < 8; ++w) {
        if (kind == Workers::kFourPerProcessor) processors[w] = {.turn = w / 2, .turns = 4};
        if (kind == Workers::kOneToEightTimesSlower) processors[w].slowness = 1 + w;
      }
      ManualClock clock;
      PolicyV2 policy({.workers = 8, .run_queue_size = 1024}, clock);
      YieldingFibers fibers(policy, clock, processors);
      for (int i = 0; i < 200; ++i) fibers.Add(New(), i % 2 == 0 ? 100ns : run);
      fibers.Run(1s, 1'000'000);  // Worker 0, which has started them all, is left behind 200 of them.
      for (int i = 0; i < 3; ++i) {
        fibers.Run(400ms, 1'000'000);
        EXPECT_LE(fibers.Ratio(), 3) << fibers.Turns();
        // Two rounds, or eight where they are short; and for as long as the worker that has the fiber is stopped.
        const std::chrono::nanoseconds round = std::chrono::nanoseconds(400ms) / fibers.MeanTurns();
        const std::chrono::nanoseconds stopped = kind == Workers::kFourPerProcessor ? 9ms : 0ms;
        EXPECT_LE(fibers.longest_gap(), (run >= 100us ? 2 : 8) * round + stopped);
      }
      for (unsigned w = 0; w < 8; ++w) {
        while (Pop(policy, w) != nullptr) {
        }
      }
    }
  }
}

// They had every other turn, each as long as a slice: hundreds of short fibers behind three of them waited for 15 s.
TEST_F(PolicyV2Test, AfterASliceOthersRunForAsLong) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
  const auto loops = NewFibers(3);
  const auto others = NewFibers(200);
  for (FiberEntity* fiber : others) policy.Push(fiber, kStarted, 0);
  for (FiberEntity* fiber : loops) policy.Push(fiber, kYielded, 0);
  std::size_t slices = 0;
  const auto end_slice = [&](FiberEntity* loop) {  // As a worker does. Returns the next fiber.
    ++slices;
    clock.Advance(kTimeSlice);
    policy.SliceIsOver(0);
    FiberEntity* next = Pop(policy, 0);
    policy.Push(loop, kYielded, 0);
    return next;
  };
  const auto is_loop = [&](FiberEntity* fiber) { return std::ranges::find(loops, fiber) != loops.end(); };
  FiberEntity* next = Pop(policy, 0);
  for (std::size_t run = 0; run < others.size();) {
    ASSERT_NE(next, nullptr);
    if (is_loop(next)) {
      next = end_slice(next);
      ASSERT_LE(slices, 2 * loops.size());
    } else {
      ++run;
      clock.Advance(1us);
      next = Pop(policy, 0);
    }
  }
  // By themselves they need not wait, and each has its turn.
  std::set<FiberEntity*> had_turns;
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(is_loop(next));
    had_turns.insert(next);
    next = end_slice(next);
  }
  EXPECT_EQ(had_turns.size(), loops.size());
  while (Pop(policy, 0) != nullptr) {
  }
}

// Each slice that ended put the others first for another one, theirs as well: a fiber that had yielded never ran again.
TEST_F(PolicyV2Test, AfterASliceOfTheOthersOneThatHasYieldedRunsThoughThereAreAlwaysMoreOfThem) {
  for (const bool beside_short_ones : {false, true}) {
    ManualClock clock;
    PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
    FiberEntity* yielded = New();
    policy.Push(yielded, kYielded, 0);
    FiberEntity* next = Pop(policy, 0);
    ASSERT_EQ(next, yielded);
    std::set<FiberEntity*> short_ones;
    int others_slices = 0;
    for (int turns = 0; turns < 10;) {
      ASSERT_NE(next, nullptr);
      if (short_ones.erase(next) != 0) {
        clock.Advance(1us);
        next = Pop(policy, 0);
        continue;
      }
      policy.Push(New(), kStarted, kNoWorker);  // It loops, too.
      if (beside_short_ones) policy.Push(*short_ones.insert(New()).first, kStarted, 0);
      clock.Advance(kTimeSlice);
      policy.SliceIsOver(0);
      FiberEntity* const left = next;
      next = Pop(policy, 0);
      if (left == yielded) {
        EXPECT_NE(next, yielded) << "the others have no turn";
        policy.Push(yielded, kYielded, 0);
        ++turns;
        others_slices = 0;
      } else {
        // It goes on elsewhere.
        ASSERT_LE(++others_slices, 2) << "it starves";
      }
    }
    while (Pop(policy, 0) != nullptr) {
    }
  }
}

TEST_F(PolicyV2Test, WhereOnlyThoseThatYieldedRanTheOthersComeFirstAfterTheNextSlice) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
  const auto loops = NewFibers(3);
  for (FiberEntity* fiber : loops) policy.Push(fiber, kYielded, 0);
  FiberEntity* next = Pop(policy, 0);
  const auto end_slice = [&] {
    clock.Advance(kTimeSlice);
    policy.SliceIsOver(0);
    FiberEntity* const left = next;
    next = Pop(policy, 0);
    policy.Push(left, kYielded, 0);
  };
  for (int i = 0; i < 6; ++i) end_slice();
  for (int i = 0; i < 20; ++i) {
    end_slice();
    ASSERT_NE(std::ranges::find(loops, next), loops.end());
    FiberEntity* const other = New();
    policy.Push(other, kStarted, kNoWorker);
    end_slice();
    EXPECT_EQ(next, other) << i;
    clock.Advance(1us);
    next = Pop(policy, 0);
  }
  while (Pop(policy, 0) != nullptr) {
  }
}

// Each slice that ended made the worker look outside first, and there was always something.
TEST_F(PolicyV2Test, BesideFibersFromOutsideThatAllLoopAWorkerServesItsOwnToo) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
  policy.Push(New(), kStarted, kNoWorker);
  FiberEntity* next = Pop(policy, 0);
  std::set<FiberEntity*> own;
  for (const ReadyReason reason : {kWoken, kWoken, kStarted}) policy.Push(*own.insert(New()).first, reason, 0);
  for (int slices = 0; !own.empty();) {
    ASSERT_NE(next, nullptr);
    policy.Push(New(), kStarted, kNoWorker);
    if (own.erase(next) != 0) {
      clock.Advance(1us);
      next = Pop(policy, 0);
      continue;
    }
    ASSERT_LE(++slices, 9) << own.size() << " starve";
    clock.Advance(kTimeSlice);
    policy.SliceIsOver(0);
    FiberEntity* const left = next;
    next = Pop(policy, 0);
    policy.Push(left, kYielded, 0);
  }
  while (Pop(policy, 0) != nullptr) {
  }
}

TEST_F(PolicyV2Test, WhatHasYieldedWhereFibersRunForLongIsSeenAndIsForThievesToo) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024}, clock);
  FiberEntity* local = New(/*local=*/true);
  FiberEntity* other = New();
  policy.Push(local, kYielded, 0);
  policy.Push(other, kYielded, 0);
  for (int i = 0; i < 10; ++i) {
    FiberEntity* fiber = Pop(policy, 0);
    clock.Advance(1ms);
    policy.Push(fiber, kYielded, 0);
  }
  EXPECT_EQ(policy.Size(), 2u);
  EXPECT_TRUE(policy.HasWork());
  EXPECT_TRUE(policy.HasStealable());
  bool must_notify = false;
  EXPECT_EQ(policy.Steal(&must_notify), other);
  EXPECT_EQ(policy.Size(), 1u);
  EXPECT_EQ(policy.Steal(&must_notify), nullptr);
  EXPECT_TRUE(must_notify) << "the local fiber was hidden from its workers: they must be notified";
  EXPECT_EQ(Pop(policy, 1), local);
  EXPECT_FALSE(policy.HasWork());
}

TEST_F(PolicyV2Test, WhatHasYieldedWhereFibersRunForLongDoesNotStarveThoughThereIsAlwaysMoreFromOutside) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 4096}, clock);
  FiberEntity* yielded = New();
  policy.Push(yielded, kYielded, 0);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Pop(policy, 0), yielded);
    clock.Advance(1ms);
    policy.Push(yielded, kYielded, 0);
  }
  // Now worker 0 does not come back. The other one has fibers of its own, and new ones come faster than it takes them.
  const auto f = NewFibers(100);
  for (FiberEntity* fiber : f) policy.Push(fiber, kYielded, 1);
  const auto started = NewFibers(100);
  policy.PushBatch(started.data(), started.size(), kStarted, kNoWorker);
  for (int ticks = 0;; ++ticks) {
    ASSERT_LT(ticks, 20 * 61);
    FiberEntity* const fiber = Pop(policy, 1);
    ASSERT_NE(fiber, nullptr);
    if (fiber == yielded) break;
    policy.Push(fiber, kYielded, 1);
    policy.Push(New(), kStarted, kNoWorker);
    clock.Advance(100ns);
  }
  while (Pop(policy, 0) != nullptr || Pop(policy, 1) != nullptr) {
  }
}

// The check at which these come first was the one at which its worker had found stuck fibers of others before.
TEST_F(PolicyV2Test, WhatHasYieldedDoesNotStarveThoughThereIsAlwaysMoreFromOutsideAndAtWorkersThatAreStuck) {
  ManualClock clock;
  PolicyV2 policy({.workers = 2, .run_queue_size = 4096}, clock);
  ASSERT_EQ(Pop(policy, 0), nullptr);  // Worker 0 was there once,
  FiberEntity* yielded = New();
  policy.Push(yielded, kYielded, 1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(Pop(policy, 1), yielded);
    clock.Advance(1ms);
    policy.Push(yielded, kYielded, 1);
  }
  for (int ticks = 0;; ++ticks) {
    ASSERT_LT(ticks, 100) << "it starves";
    policy.Push(New(), kStarted, 0);  // and runs a fiber for long that starts others,
    policy.Push(New(), kStarted, 1);  // as those of worker 1 do,
    policy.Push(New(), kStarted, kNoWorker);
    FiberEntity* const fiber = Pop(policy, 1);
    ASSERT_NE(fiber, nullptr);
    if (fiber == yielded) break;
    clock.Advance(1ms);
  }
  while (Pop(policy, 0) != nullptr || Pop(policy, 1) != nullptr) {
  }
}

// While it had them in its hand nobody saw them, and a worker that was about to sleep sleeps.
TEST_F(PolicyV2Test, AWorkerThatTookMoreThanOneFromTheQueueSaysSo) {
  PolicyV2 policy({.workers = 2, .run_queue_size = 1024});
  const auto f = NewFibers(200);
  policy.PushBatch(f.data(), f.size(), kStarted, kNoWorker);
  for (std::size_t popped = 0; popped < f.size(); ++popped) {
    const auto visits = policy.CountsOf(0).visits;
    const auto fibers = policy.CountsOf(0).fibers;
    bool must_notify = false;
    ASSERT_NE(policy.Pop(0, &must_notify), nullptr);
    const bool took_several = policy.CountsOf(0).visits != visits && policy.CountsOf(0).fibers - fibers > 1;
    ASSERT_EQ(must_notify, took_several) << popped;
  }
  EXPECT_LT(policy.CountsOf(0).visits, f.size()) << "it took one at a time";
}

}  // namespace
}  // namespace weft::scheduling_group
