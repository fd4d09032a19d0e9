// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/queue/timer_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "weft/timer/queue/timer_node.h"

namespace weft::timer {
namespace {

using std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;

constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

// The ticks of what fires on the way to `now`.
std::vector<Tick> TicksFired(TimerQueue& queue, Tick now) {
  std::vector<Tick> fired;
  EXPECT_EQ(queue.Advance(now, kUnbounded, [&](TimerNode* node) { fired.push_back(node->tick); }),
            TimerQueue::Progress::kDone);
  return fired;
}

TEST(Tick, ADeadlineIsRoundedUpAndThePresentDown) {
  const TimePoint deadline(nanoseconds((7 << kTickShift) + 1));
  EXPECT_EQ(TickOfDeadline(deadline), 8u);
  EXPECT_EQ(TickOfNow(deadline), 7u);
  EXPECT_EQ(TickOfDeadline(TimePoint(nanoseconds(7 << kTickShift))), 7u);
  EXPECT_GE(BeginOfTick(TickOfDeadline(deadline)), deadline);
}

TEST(Tick, EveryTimePointHasATick) {
  EXPECT_EQ(TickOfDeadline(TimePoint::min()), 0u);
  EXPECT_EQ(TickOfNow(TimePoint::min()), 0u);
  EXPECT_EQ(TickOfDeadline(TimePoint::max()), kLastTick);
  EXPECT_LE(TickOfNow(TimePoint::max()), kLastTick);
  EXPECT_EQ(BeginOfTick(kNever), TimePoint::max());
  EXPECT_GT(BeginOfTick(kLastTick), TimePoint(std::chrono::hours(24 * 365 * 290)));
}

TEST(TimerQueue, AnEmptyQueueHasNothingToWaitFor) {
  TimerQueue queue(12345);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.NextWakeup(), kNever);
  EXPECT_EQ(queue.PopAny(), nullptr);
  EXPECT_TRUE(TicksFired(queue, kLastTick).empty());
  EXPECT_EQ(queue.present(), kLastTick);
}

TEST(TimerQueue, ANodeFiresAtItsTickAndNotBefore) {
  for (const Tick distance :
       {Tick{1}, Tick{63}, Tick{64}, Tick{4095}, Tick{4096}, Tick{4097}, Tick{262143}, Tick{262144}, Tick{1} << 40}) {
    for (const Tick start : {Tick{0}, Tick{63}, Tick{64}, Tick{4095}, Tick{4096}, Tick{0x3ffff}, Tick{0x123456789}}) {
      TimerQueue queue(start);
      TimerNode node;
      queue.Add(&node, start + distance);
      EXPECT_TRUE(node.linked());
      EXPECT_TRUE(TicksFired(queue, start + distance - 1).empty()) << start << " + " << distance;
      EXPECT_EQ(TicksFired(queue, start + distance), std::vector<Tick>{start + distance});
      EXPECT_FALSE(node.linked());
      EXPECT_TRUE(queue.empty());
    }
  }
}

TEST(TimerQueue, WhatIsOverdueWhenAddedFiresAtOnce) {
  TimerQueue queue(1000);
  TimerNode node;
  queue.Add(&node, 10);
  EXPECT_EQ(queue.NextWakeup(), 1000u);
  EXPECT_EQ(TicksFired(queue, 1000).size(), 1u);
}

TEST(TimerQueue, InfinityIsNeverReached) {
  TimerQueue queue(1000);
  TimerNode node;
  queue.Add(&node, kNever);
  EXPECT_TRUE(TicksFired(queue, kLastTick - 1).empty());
  EXPECT_TRUE(node.linked());
  queue.Remove(&node);
  EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, APresentThatGoesBackIsIgnored) {
  TimerQueue queue(1000);
  TimerNode node;
  queue.Add(&node, 1001);
  EXPECT_TRUE(TicksFired(queue, 5).empty());
  EXPECT_EQ(queue.present(), 1000u);
  EXPECT_EQ(TicksFired(queue, 1001).size(), 1u);
}

TEST(TimerQueue, AnEmptyQueueCanBeSetBackInTime) {
  TimerQueue queue(1000);
  queue.Restart(10);
  TimerNode node;
  queue.Add(&node, 20);
  EXPECT_TRUE(TicksFired(queue, 19).empty());
  EXPECT_EQ(TicksFired(queue, 20).size(), 1u);
}

TEST(TimerQueue, ATimerFarAheadTakesOneWakeUpIfItIsAlone) {
  const Tick start = 0x3fffff;
  const Tick due = start + 610352;  // 20 s
  TimerQueue queue(start);
  TimerNode node;
  queue.Add(&node, due);
  EXPECT_EQ(queue.NextWakeup(), due);
  EXPECT_EQ(TicksFired(queue, due).size(), 1u);
}

TEST(TimerQueue, AnIdleQueueWakesAtMostOncePerLevelForManyTimersOfOneTick) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const Tick start = random() >> (64 - kTickBits + 1);
    const Tick due = start + 610352;  // 20 s: the fourth level
    TimerQueue queue(start);
    std::vector<TimerNode> nodes(1000);
    for (TimerNode& node : nodes) queue.Add(&node, due);
    int wake_ups = 0;
    std::size_t fired = 0;
    while (!queue.empty()) {
      const Tick next = queue.NextWakeup();
      ASSERT_LE(next, due);
      fired += TicksFired(queue, next).size();
      ++wake_ups;
    }
    EXPECT_EQ(fired, nodes.size());
    EXPECT_LE(wake_ups, 5);  // A carry may lift it one level higher.
  }
}

TEST(TimerQueue, NodesFireInTheOrderOfTheirTicksOverAnyJump) {
  std::mt19937_64 random(2);
  TimerQueue queue(77);
  std::vector<TimerNode> nodes(5000);
  for (TimerNode& node : nodes) queue.Add(&node, 77 + (random() >> (random() % 40 + 20)) % (Tick{1} << 44));
  const std::vector<Tick> fired = TicksFired(queue, kLastTick);
  EXPECT_EQ(fired.size(), nodes.size());
  EXPECT_TRUE(std::is_sorted(fired.begin(), fired.end()));
}

TEST(TimerQueue, NodesOfOneTickThatAreAddedTogetherFireInThatOrder) {
  TimerQueue queue;
  std::vector<TimerNode> nodes(100);
  for (TimerNode& node : nodes) queue.Add(&node, 300000);
  std::vector<TimerNode*> fired;
  ASSERT_EQ(queue.Advance(300000, kUnbounded, [&](TimerNode* node) { fired.push_back(node); }),
            TimerQueue::Progress::kDone);
  ASSERT_EQ(fired.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(fired[i], &nodes[i]);
}

TEST(TimerQueue, ABudgetBoundsTheWorkAndLosesNothing) {
  TimerQueue queue;
  std::vector<TimerNode> nodes(1000);
  for (std::size_t i = 0; i < nodes.size(); ++i) queue.Add(&nodes[i], 5000 + i % 3);
  std::size_t fired = 0;
  int calls = 1;
  while (queue.Advance(5002, 10, [&](TimerNode*) { ++fired; }) == TimerQueue::Progress::kMore) {
    ++calls;
    // Between two calls the queue is as good as ever: something is due, and nodes come and go.
    EXPECT_LE(queue.NextWakeup(), 5002u);
    TimerNode extra;
    queue.Add(&extra, 9999);
    queue.Remove(&extra);
  }
  EXPECT_EQ(fired, nodes.size());
  EXPECT_GE(calls, 100);
  EXPECT_TRUE(queue.empty());
}

TEST(TimerQueue, WhatIsAboutToBeFiledAgainCanBeRemoved) {
  TimerQueue queue;
  std::vector<TimerNode> nodes(3);
  for (TimerNode& node : nodes) queue.Add(&node, 4100);
  ASSERT_EQ(queue.Advance(4096, 1, [](TimerNode*) { FAIL(); }), TimerQueue::Progress::kMore);
  for (TimerNode& node : nodes) queue.Remove(&node);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.NextWakeup(), kNever);
  EXPECT_TRUE(TicksFired(queue, 5000).empty());
}

TEST(TimerQueue, PopAnyEmptiesTheQueueInTheMiddleOfAnAdvance) {
  TimerQueue queue;
  std::vector<TimerNode> nodes(100);
  for (std::size_t i = 0; i < nodes.size(); ++i) queue.Add(&nodes[i], i < 50 ? 4100 : Tick{1} << 30);
  ASSERT_EQ(queue.Advance(4096, 5, [](TimerNode*) { FAIL(); }), TimerQueue::Progress::kMore);
  std::size_t popped = 0;
  while (TimerNode* node = queue.PopAny()) {
    EXPECT_FALSE(node->linked());
    ++popped;
  }
  EXPECT_EQ(popped, nodes.size());
  EXPECT_EQ(queue.NextWakeup(), kNever);
}

// The queue against an ordered map, doing the same at random: additions at every distance (weighted towards the edges
// of levels), removals, advances by anything from nothing to years, budgets from one node to all.
class TimerQueueProperty : public ::testing::TestWithParam<int> {};

TEST_P(TimerQueueProperty, BehavesAsAnOrderedMapWould) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const auto below = [&](std::uint64_t n) { return random() % n; };
  // A distance near a power of two, or anywhere below it.
  const auto any_distance = [&](int max_bits) -> Tick {
    const Tick edge = Tick{1} << below(static_cast<std::uint64_t>(max_bits));
    return below(2) == 0 ? below(edge + 1) : edge + below(5) - std::min<Tick>(edge, below(3));
  };

  const Tick start = random() >> (65 - kTickBits + below(40));
  TimerQueue queue(start);
  Tick now = start;
  std::multimap<Tick, TimerNode*> model;
  std::vector<std::unique_ptr<TimerNode>> nodes;
  const int population = GetParam() % 4 == 0 ? 6 : 300;
  for (int i = 0; i < population; ++i) nodes.push_back(std::make_unique<TimerNode>());

  int advances = 0;
  for (int step = 0; step < 20000; ++step) {
    TimerNode* node = nodes[below(nodes.size())].get();
    switch (below(8)) {
      default:
        if (!node->linked()) {
          const Tick tick = now + any_distance(kTickBits - 1) - below(3);
          queue.Add(node, tick);
          model.emplace(std::min(std::max(tick, now), kLastTick), node);
          ASSERT_EQ(node->tick, std::min(std::max(tick, now), kLastTick));
        } else {
          queue.Remove(node);
          auto [from, to] = model.equal_range(node->tick);
          const auto it = std::find_if(from, to, [&](const auto& entry) { return entry.second == node; });
          ASSERT_NE(it, to);
          model.erase(it);
        }
        break;
      case 0:
      case 1: {
        const Tick target =
            below(4) == 0 ? queue.NextWakeup() : now + any_distance(below(10) == 0 ? kTickBits - 4 : 20);
        if (target == kNever || target > (kLastTick >> 1)) break;
        now = std::max(now, target);
        ++advances;
        const std::size_t budget = below(2) == 0 ? kUnbounded : 1 + below(50);
        Tick last = 0;
        const auto fire = [&](TimerNode* due) {
          ASSERT_FALSE(due->linked());
          ASSERT_LE(due->tick, now) << "early";
          ASSERT_GE(due->tick, last) << "out of order";
          last = due->tick;
          auto [from, to] = model.equal_range(due->tick);
          const auto it = std::find_if(from, to, [&](const auto& entry) { return entry.second == due; });
          ASSERT_NE(it, to) << "fired, though it was not there";
          model.erase(it);
        };
        while (queue.Advance(now, budget, fire) == TimerQueue::Progress::kMore) {
          ASSERT_LE(queue.NextWakeup(), now);
          // Now and then something is taken out or put in between two slices of the work.
          if (below(4) != 0) continue;
          TimerNode* other = nodes[below(nodes.size())].get();
          if (!other->linked()) {
            const Tick tick = queue.present() + any_distance(20);
            last = std::min(last, tick);
            queue.Add(other, tick);
            model.emplace(other->tick, other);
          } else {
            queue.Remove(other);
            auto [from, to] = model.equal_range(other->tick);
            model.erase(std::find_if(from, to, [&](const auto& entry) { return entry.second == other; }));
          }
        }
        ASSERT_EQ(queue.present(), now);
        if (!model.empty()) {
          ASSERT_GT(model.begin()->first, now) << "late";
        }
        break;
      }
    }
    ASSERT_EQ(queue.size(), model.size());
    const Tick next = queue.NextWakeup();
    if (model.empty()) {
      ASSERT_EQ(next, kNever);
    } else {
      ASSERT_LE(next, model.begin()->first) << "would be late";
      ASSERT_GE(next, now);
      // Exact if there are few.
      if (model.size() <= 8) {
        ASSERT_EQ(next, model.begin()->first);
      }
    }
  }
  EXPECT_GT(advances, 1000);
  while (queue.PopAny() != nullptr) {
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, TimerQueueProperty, ::testing::Range(1, 21));

}  // namespace
}  // namespace weft::timer
