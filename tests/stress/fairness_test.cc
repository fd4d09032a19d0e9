// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers that yield in a loop keep nobody from running: not sleepers, not new fibers, not other groups' local fibers.
//
// The clock of these tests is the turns of those that keep the workers busy: it stands still while the workers have no
// CPU, so a machine that others share does not matter. A turn takes about 100 ns.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/testing/function_ref.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// No worker makes so many turns before whoever should run has run: about 100 ms. (Ten of them are for sleeps.)
constexpr std::int64_t kMostTurns = 1'000'000;

// The kernel may stop the timer's thread and let the workers run. A starving fiber exceeds the limits every time.
constexpr int kAttempts = 3;

// The turns of the fibers below, by a worker's number in its group.
class Turns {
 public:
  static constexpr unsigned kWorkers = 64;
  using Numbers = std::array<std::int64_t, kWorkers>;

  static unsigned ThisWorker() { return scheduling_group::CurrentWorker()->index; }
  // relaxed, both: a number.
  void CountOne() { turns_[ThisWorker()].number.fetch_add(1, std::memory_order_relaxed); }
  std::int64_t Of(unsigned worker) const { return turns_[worker].number.load(std::memory_order_relaxed); }
  Numbers Now() const {
    Numbers now;
    for (unsigned w = 0; w < kWorkers; ++w) now[w] = Of(w);
    return now;
  }
  // Of the worker that has made most since then.
  std::int64_t MostSince(const Numbers& before) const {
    std::int64_t most = 0;
    for (unsigned w = 0; w < kWorkers; ++w) most = std::max(most, Of(w) - before[w]);
    return most;
  }

 private:
  struct alignas(base::kCacheLineSize) Own {
    std::atomic<std::int64_t> number{0};
  };
  Own turns_[kWorkers];
};

// Eight fibers per worker that yield until it is destroyed.
class Yielders {
 public:
  explicit Yielders(Fiber::Attributes attributes = {}) {
    const std::size_t count = 8 * GetConcurrencyHint();
    FiberLatch running(static_cast<std::ptrdiff_t>(count));
    for (std::size_t i = 0; i < count; ++i) {
      fibers_.emplace_back(attributes, [this, &running] {
        running.CountDown();
        while (!stop_.load(std::memory_order_relaxed)) {
          turns_.CountOne();
          FiberYield();
        }
      });
    }
    running.Wait();
  }
  ~Yielders() {
    stop_ = true;
    for (Fiber& fiber : fibers_) fiber.Join();
  }
  const Turns& turns() const { return turns_; }
  std::size_t fibers() const { return fibers_.size(); }

 private:
  Turns turns_;
  std::atomic<bool> stop_{false};
  std::vector<Fiber> fibers_;
};

// Pairs of fibers, one per worker, that hand off to each other until it is destroyed.
class Players {
 public:
  Players() : pairs_(GetConcurrencyHint()) {
    for (Pair& pair : pairs_) {
      fibers_.emplace_back([&] {
        while (!stop_.load(std::memory_order_relaxed)) {
          turns_.CountOne();
          pair.pong.Set();
          pair.ping.Wait();
          pair.ping.Reset();
        }
        pair.pong.Set();
      });
      fibers_.emplace_back([&] {
        while (!stop_.load(std::memory_order_relaxed)) {
          pair.pong.Wait();
          pair.pong.Reset();
          turns_.CountOne();
          pair.ping.Set();
        }
        pair.ping.Set();
      });
    }
  }
  ~Players() {
    stop_ = true;
    for (Fiber& fiber : fibers_) fiber.Join();
  }
  const Turns& turns() const { return turns_; }
  std::size_t fibers() const { return fibers_.size(); }

 private:
  struct Pair {
    FiberEvent ping, pong;
  };
  Turns turns_;
  std::atomic<bool> stop_{false};
  std::vector<Pair> pairs_;
  std::vector<Fiber> fibers_;
};

class Fairness : public InEachShape {
 protected:
  // `f` ends before a worker has made kMostTurns, which workers of several groups count together.
  void ExpectSoon(const Turns& turns, weft::testing::FunctionRef f) {
    const std::int64_t limit = kMostTurns * static_cast<std::int64_t>(groups());
    std::int64_t least = limit;
    for (int i = 0; i < kAttempts && least >= limit; ++i) {
      const Turns::Numbers before = turns.Now();
      f();
      const std::int64_t took = turns.MostSince(before);
      least = i == 0 ? took : std::min(least, took);
    }
    RecordProperty("turns", std::to_string(least));
    EXPECT_LT(least, limit);
  }
};
WEFT_INSTANTIATE_SHAPES(Fairness);

// boost.fiber and marl: 0 of 80 sleeps done in 2 s.
TEST_P(Fairness, YieldingFibersDoNotStarveSleepers) {
  const Yielders yielders;
  ExpectSoon(yielders.turns(), [] {
    std::vector<Fiber> sleepers;
    for (int i = 0; i < 80; ++i) sleepers.emplace_back([] { FiberSleepFor(10ms); });
    for (Fiber& sleeper : sleepers) sleeper.Join();
  });
}

// tRPC's second scheduler: over 2 s.
TEST_P(Fairness, YieldingFibersDoNotStarveNewFibersOfPlainThreads) {
  const Yielders yielders;
  ExpectSoon(yielders.turns(), [] { Fiber([] {}).Join(); });
}

TEST_P(Fairness, YieldingFibersDoNotStarveNewFibersOfFibers) {
  const Yielders yielders;
  InFiber([&] { ExpectSoon(yielders.turns(), [] { Fiber([] {}).Join(); }); });
}

// --- A fiber that a plain thread starts while all workers are busy runs within a millisecond ---

// A policy promises a number of turns: the fiber waits behind those that were ready before it, and a worker checks for
// fibers from outside every so often. So the test counts the turns of others between start and run, on the worker that
// ran the fiber. The time is the turns of the busiest worker: a millisecond has ten thousand.
struct StartDelay {
  std::int64_t turns;
  std::int64_t time;
};
constexpr std::int64_t kMillisecond = 10'000;

// The median of many: the kernel seldom puts aside the thread between the reading and the start, or a worker with the
// fiber in hand; a delay by the scheduler comes each time.
StartDelay MedianStartDelay(const Turns& turns) {
  constexpr std::size_t kStarts = 201;
  std::vector<std::int64_t> counted;
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < kStarts; ++i) {
    const Turns::Numbers before = turns.Now();
    Fiber([&] {
      times.push_back(turns.MostSince(before));
      const unsigned here = Turns::ThisWorker();
      counted.push_back(turns.Of(here) - before[here]);
    }).Join();
  }
  const auto middle = [](std::vector<std::int64_t>& values) {
    std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
    return values[values.size() / 2];
  };
  return {middle(counted), middle(times)};
}

class StartFromOutside : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  template <class Load>
  void Judge(const Load& load) {
    // Each of the load's fibers may be ahead of it once, and one worker may run them all, if others have no processor
    // at the time. A worker checks for fibers from outside every 61 ticks (PolicyV2::kMaxTicks) or after 16 hand-offs
    // (kMaxHandOffs) and 16 others (PolicyV1::kMaxBatch). Some turns also pass between the thread's reading of the
    // numbers and its push.
    constexpr std::int64_t kTicksPerCheck = 61;
    constexpr std::int64_t kOnTheWay = 50;
    const std::int64_t most_turns = static_cast<std::int64_t>(load.fibers()) + kTicksPerCheck + kOnTheWay;
    StartDelay best{};
    for (int i = 0; i < kAttempts; ++i) {
      const StartDelay found = MedianStartDelay(load.turns());
      if (i == 0 || found.turns < best.turns) best.turns = found.turns;
      if (i == 0 || found.time < best.time) best.time = found.time;
      if (best.turns <= most_turns && best.time < kMillisecond) break;
    }
    RecordProperty("turns", std::to_string(best.turns));
    RecordProperty("busiest", std::to_string(best.time));
    EXPECT_LE(best.turns, most_turns);
    EXPECT_LT(best.time, kMillisecond);
  }
};

TEST_P(StartFromOutside, RunsWithinAMillisecondAmongFibersThatYieldOrHandOffForEver) {
  const RuntimeOf runtime(Shape{std::get<0>(GetParam()), 1});
  if (std::get<1>(GetParam())) {
    Judge(Yielders());
  } else {
    Judge(Players());
  }
}

INSTANTIATE_TEST_SUITE_P(Loads, StartFromOutside, ::testing::Combine(::testing::Values(1, 2, 8), ::testing::Bool()),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "Workers" +
                                  (std::get<1>(info.param) ? "Yield" : "HandOff");
                         });

TEST_P(Fairness, YieldingFibersDoNotStarveTimersWithCallbacks) {
  const Yielders yielders;
  ExpectSoon(yielders.turns(), [] {
    FiberEvent fired;
    SetFiberDetachedTimer(10ms, [&fired] { fired.Set(); });
    fired.Wait();
  });
}

TEST_P(Fairness, YieldingFibersDoNotStarveLocalFibersOfAnyGroup) {
  const Yielders yielders;
  ExpectSoon(yielders.turns(), [this] {
    std::vector<Fiber> local;
    for (std::size_t group = 0; group < groups(); ++group) {
      local.emplace_back(Fiber::Attributes{.scheduling_group = group, .scheduling_group_local = true}, [group] {
        for (int i = 0; i < 10; ++i) {
          ASSERT_EQ(GetCurrentSchedulingGroupIndex(), group);
          FiberYield();
        }
      });
    }
    for (Fiber& fiber : local) fiber.Join();
  });
}

TEST_P(Fairness, YieldingLocalFibersOfOneGroupDoNotStarveTheOthers) {
  const Yielders yielders(Fiber::Attributes{.scheduling_group = 0, .scheduling_group_local = true});
  ExpectSoon(yielders.turns(), [this] {
    std::vector<Fiber> others;
    for (std::size_t group = 0; group < groups(); ++group) {
      others.emplace_back(Fiber::Attributes{.scheduling_group = group}, [] { FiberSleepFor(1ms); });
    }
    for (Fiber& fiber : others) fiber.Join();
  });
}

// Two fibers that pass a token use the hand-off slot; the queue must get its turn all the same.
TEST_P(Fairness, PingPongDoesNotStarveQueuedFibers) {
  const Players players;
  ExpectSoon(players.turns(), [] {
    InFiber([] {
      std::vector<Fiber> fibers;
      for (int i = 0; i < 100; ++i) fibers.emplace_back([] { FiberYield(); });
      for (Fiber& fiber : fibers) fiber.Join();
    });
  });
}

// Of CPU time.
void ComputeForAMillisecond() {
  const auto cpu_time = [] {
    timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  for (const auto until = cpu_time() + 1ms; cpu_time() < until;) {
  }
}

// The second policy left them in the long fiber's queue: the last one began after 20.3 ms, when that fiber was done.
// The clock counts the turns of the other worker's fibers: it stands still while that worker has no CPU.
TEST(FairnessOfLongFibers, WhatALongFiberHasStartedIsRunByAWorkerThatIsBusyToo) {
  const RuntimeOf runtime(Shape{2, 1});
  std::atomic<std::int64_t> turns{0};
  std::atomic<bool> stop{false};
  std::vector<Fiber> yielders;
  for (int i = 0; i < 8; ++i) {
    yielders.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        turns.fetch_add(1, std::memory_order_relaxed);
        FiberYield();
      }
    });
  }
  constexpr int kStarted = 20;
  constexpr std::int64_t kLong = 1'000'000;  // turns, some 20 ms; the last of the fibers began after 200,000 or more
  std::vector<std::int64_t> waits;
  for (int attempt = 0; attempt < 9; ++attempt) {
    Fiber([&] {
      FiberLatch done(kStarted);
      std::atomic<int> begun{0};
      std::atomic<std::int64_t> last{0};
      std::int64_t begin = 0;
      for (int i = 0; i < kStarted; ++i) {
        EXPECT_TRUE(StartFiberDetached([&] {
          if (begun.fetch_add(1) == kStarted - 1) last = turns.load();
          done.CountDown();
        }));
      }
      begin = turns.load();
      for (const auto limit = Steady::now() + 300ms; turns.load() - begin < kLong && Steady::now() < limit;) {
        base::CpuRelax();
      }
      done.Wait();
      waits.push_back(last - begin);
    }).Join();
  }
  stop = true;
  for (Fiber& fiber : yielders) fiber.Join();
  std::sort(waits.begin(), waits.end());
  RecordProperty("least", std::to_string(waits.front()));
  RecordProperty("median", std::to_string(waits[waits.size() / 2]));
  EXPECT_LT(waits[waits.size() / 2], kLong / 5);
}

// 8 workers, 100 fibers that yield and as many that compute for a millisecond: under the second policy they had 5 to
// 597 turns. A wide bound, since the kernel also decides; tests/scheduling_group/policy_v2_test.cc has a narrow one.
TEST(FairnessOfLongFibers, FibersThatYieldHaveAboutAsManyTurnsAsThoseThatCompute) {
  constexpr std::size_t kOfEach = 40;
  constexpr std::int64_t kTurns = 10;  // on average
  const RuntimeOf runtime(Shape{8, 1});
  double ratio = 1000;
  for (int attempt = 0; attempt < kAttempts && ratio > 3; ++attempt) {
    std::vector<std::atomic<std::int64_t>> turns(2 * kOfEach);
    std::atomic<std::size_t> begun{0};
    std::atomic<std::int64_t> sum{0};
    std::vector<Fiber> fibers;
    for (std::size_t i = 0; i < turns.size(); ++i) {
      fibers.emplace_back([&, i] {
        ++begun;
        while (sum.load(std::memory_order_relaxed) < kTurns * std::ssize(turns)) {
          if (i % 2 != 0) ComputeForAMillisecond();
          if (begun == turns.size()) {  // Else nobody counts.
            ++turns[i];
            ++sum;
          }
          FiberYield();
        }
      });
    }
    for (Fiber& fiber : fibers) fiber.Join();
    const auto [least, most] = std::minmax_element(turns.begin(), turns.end());
    ratio = std::min(ratio, static_cast<double>(*most) / static_cast<double>(std::max<std::int64_t>(*least, 1)));
  }
  RecordProperty("ratio", std::to_string(ratio));
  EXPECT_LE(ratio, 3);
}

}  // namespace
}  // namespace weft::fiber
