// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/callback_runner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "weft/tests/timer/manual_shards.h"
#include "weft/timer/fiber_timer.h"

namespace weft::timer {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

class CallbackRunnerTest : public ::testing::Test {
 protected:
  void RunDue(const std::vector<TimerEntry*>& due) {
    if (!due.empty()) runner_.RunDue(due.data(), due.size());
  }
  void RunDue() { RunDue(shards_.Fire()); }

  ManualShards shards_;
  CallbackRunner runner_{/*group=*/nullptr};
};

// A timer of the timer thread, armed.
template <class... Arguments>
std::uint64_t Armed(Arguments&&... arguments) {
  const std::uint64_t id = CreateFiberTimer(std::forward<Arguments>(arguments)...);
  EnableFiberTimer(id);
  return id;
}

TEST_F(CallbackRunnerTest, ACallbackRunsOnceWhenItIsDueAndIsNotedMeanwhile) {
  int runs = 0;
  const auto at = shards_.now() + milliseconds(5);
  const std::uint64_t id = Armed(at, [&] {
    ++runs;
    EXPECT_NE(runner_.running(), nullptr);
  });
  RunDue();
  EXPECT_EQ(runs, 0);
  shards_.SetNow(at);
  RunDue();
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(runner_.running(), nullptr);
  EXPECT_FALSE(KillFiberTimer(id)) << "it has ended";
}

// CB2.
TEST_F(CallbackRunnerTest, ATimerThatIsKilledBetweenItsFiringAndItsRunDoesNotRun) {
  const auto token = std::make_shared<int>(0);
  const std::uint64_t id = Armed(shards_.now(), [token] { ADD_FAILURE() << "it runs"; });
  shards_.SetNow(shards_.now());
  const std::vector<TimerEntry*> due = shards_.Fire();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_TRUE(KillFiberTimer(id));
  EXPECT_EQ(token.use_count(), 2) << "who has it in hand ends it";
  RunDue(due);
  EXPECT_EQ(token.use_count(), 1);
}

// CB3.
TEST_F(CallbackRunnerTest, APeriodicTimerSkipsWhatItMissedAndKeepsItsRhythm) {
  int runs = 0;
  const auto at = shards_.now() + milliseconds(10);
  const std::uint64_t id = Armed(at, milliseconds(10), [&] { ++runs; });
  shards_.SetNow(at + milliseconds(35));
  RunDue();
  EXPECT_EQ(runs, 1);
  shards_.SetNow(at + milliseconds(38));
  RunDue();
  EXPECT_EQ(runs, 1);
  shards_.SetNow(at + milliseconds(40));
  RunDue();
  EXPECT_EQ(runs, 2);
  EXPECT_TRUE(KillFiberTimer(id));
}

TEST_F(CallbackRunnerTest, APeriodicTimerThatKillsItselfEndsWithThatRun) {
  const auto token = std::make_shared<int>(0);
  int runs = 0;
  const auto at = shards_.now();
  Armed(at, milliseconds(10), [&runs, token](std::uint64_t id) {
    ++runs;
    EXPECT_TRUE(KillFiberTimer(id));
  });
  shards_.SetNow(at);
  RunDue();
  EXPECT_EQ(token.use_count(), 1);
  shards_.SetNow(at + milliseconds(100));
  RunDue();
  EXPECT_EQ(runs, 1);
}

// What its fiber would do, had it been killed.
void EndFiring(TimerEntry* entry) {
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  EndEntry(shard, entry);
}

using CallbackRunnerDeathTest = CallbackRunnerTest;

TEST_F(CallbackRunnerDeathTest, WithoutAGroupNoTimerMayNeedAFiber) {
  ASSERT_NE(SetFiberTimer(shards_.now(), [] {}), 0u);
  shards_.SetNow(shards_.now());
  const std::vector<TimerEntry*> due = shards_.Fire();
  ASSERT_EQ(due.size(), 1u);
  EXPECT_DEATH(RunDue(due), "there is no group to start it in");
  EndFiring(due[0]);
}

// Against the definition, by trial in numbers that are wide enough.
TEST(NextExpiry, IsTheFirstMomentOfTheRhythmAfterNowAndAfterTheFormer) {
  using Wide = base::Int128;
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kHour = 3'600'000'000'000;
  std::vector<std::int64_t> moments = {kMin, kMin + 1, -kMax / 2, -kHour, -1, 0, 1, kHour, kMax / 2, kMax - 1, kMax};
  std::vector<std::int64_t> intervals = {1, 2, 3, 1'000'000, kHour, kMax / 2, kMax / 2 + 1, kMax - 1, kMax};
  std::mt19937_64 random(1);
  for (int i = 0; i < 50; ++i) {
    moments.push_back(static_cast<std::int64_t>(random()) >> random() % 64);
    intervals.push_back(static_cast<std::int64_t>(random() >> (1 + random() % 63)) | 1);
  }
  for (const std::int64_t expires : moments) {
    for (const std::int64_t interval : intervals) {
      for (const std::int64_t now : moments) {
        const std::int64_t next = NextExpiry(expires, interval, steady_clock::time_point(nanoseconds(now)));
        const Wide bound = std::max(expires, now);  // The next one lies after it, and at most an interval after it.
        // Not each as an assertion of its own: there are 200,000 of them.
        const bool right = next == kMax
                               ? bound + interval >= kMax
                               : next > bound && next <= bound + interval && (Wide{next} - expires) % interval == 0;
        ASSERT_TRUE(right) << expires << ' ' << interval << ' ' << now << ": " << next;
      }
    }
  }
}

}  // namespace
}  // namespace weft::timer
