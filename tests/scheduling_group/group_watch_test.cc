// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/log_sink.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

TEST(Streak, TimeCountsWhileSomethingIsSoAtEachLook) {
  Streak streak;
  const Streak::TimePoint begin{1h};
  streak.Look(true, begin);
  EXPECT_EQ(streak.lasts(), 0ns);
  streak.Look(true, begin + 10ms);
  streak.Look(true, begin + 30ms);
  EXPECT_EQ(streak.lasts(), 30ms);
  EXPECT_EQ(streak.looks(), 3u);
  streak.Look(false, begin + 40ms);
  EXPECT_EQ(streak.lasts(), 0ns);
  EXPECT_EQ(streak.looks(), 0u);
  streak.Look(true, begin + 50ms);
  EXPECT_EQ(streak.lasts(), 0ns);
}

TEST(Streak, APauseOfTheWatchdogIsNoEvidence) {
  Streak streak;
  const Streak::TimePoint begin{1h};
  streak.Look(true, begin);
  streak.Look(true, begin + 1h);
  EXPECT_EQ(streak.lasts(), Streak::kMostSlot);
}

TEST(SayAgain, WhatLastsIsSaidEachTimeThatItHasDoubled) {
  SayAgain say;
  std::vector<int> said;
  for (int seconds = 0; seconds <= 20; ++seconds) {
    say.Look(std::chrono::seconds(seconds), 2s);
    if (!say.due()) continue;
    say.Said();
    said.push_back(seconds);
  }
  EXPECT_EQ(said, (std::vector<int>{2, 4, 8, 16}));
  say.Look(0s, 2s);
  EXPECT_FALSE(say.due());
  say.Look(2s, 2s);
  EXPECT_TRUE(say.due());
  say.Look(1h, 0s);
  EXPECT_FALSE(say.due());
}

// Sees them as often as one look needs.
void LookAt(StackGrowth* growth, std::size_t in_use) {
  for (unsigned i = 0; i < StackGrowth::kSeenPerLook; ++i) growth->See(in_use);
}

TEST(StackGrowth, StacksThatGrowAreSaidAndAgainWhenThereAreTwiceAsMany) {
  StackGrowth growth;
  std::vector<std::size_t> said;
  for (std::size_t in_use = 10; in_use <= 500; in_use += 10) {
    LookAt(&growth, in_use);
    if (!growth.IsDue(100)) continue;
    growth.Said();
    said.push_back(growth.in_use());
  }
  EXPECT_EQ(said, (std::vector<std::size_t>{100, 200, 400}));
}

TEST(StackGrowth, ManyThatDoNotGrowAreNotSaid) {
  StackGrowth growth;
  for (int i = 0; i < 100; ++i) {
    LookAt(&growth, 1'000'000);
    EXPECT_FALSE(growth.IsDue(100));
  }
}

// A burst at each look, each larger than the last: in between they are few.
TEST(StackGrowth, WhatComesAndGoesIsNoGrowth) {
  StackGrowth growth;
  for (std::size_t i = 0; i < 100; ++i) {
    for (unsigned j = 0; j + 1 < StackGrowth::kSeenPerLook; ++j) growth.See(1000 + 100 * i);
    growth.See(10);
    EXPECT_FALSE(growth.IsDue(100)) << i;
  }
}

class ManyStacksTest : public ::testing::Test {
 protected:
  ManyStacksTest() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      if (text.find("more and more stacks") == std::string_view::npos) return;
      const std::lock_guard lock(mutex_);
      line_ = text;
    });
  }
  ~ManyStacksTest() override { base::SetLogSink({}); }
  std::string Line() {
    const std::lock_guard lock(mutex_);
    return line_;
  }
  static void AwaitChecks(std::uint64_t checks) {
    const std::uint64_t until = Watchdog::Get().checks() + checks;
    while (Watchdog::Get().checks() < until) std::this_thread::yield();
  }

 private:
  std::mutex mutex_;
  std::string line_;
};

TEST_F(ManyStacksTest, AreNamedWhileTheyGrow) {
  testing::WorkerGroup group({.id = 7,
                              .workers = 1,
                              .start_timeout = testing::kPatientStart,
                              .stall_warning = 1h,
                              .many_stacks = 50,
                              .stacks_seen_every = 1ns});
  std::atomic<bool> enough{false};
  const auto wait = [&enough] {
    while (!enough) YieldCurrentFiber();
  };
  ASSERT_TRUE(group.Start(wait));
  AwaitChecks(10 * StackGrowth::kSeenPerLook);
  EXPECT_EQ(Line(), "") << "nothing grows";
  while (Line().empty()) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(group.Start(wait));
    AwaitChecks(2);
  }
  enough = true;
  group.Drain();
  const std::string line = Line();
  EXPECT_NE(line.find("scheduling group 7 uses more and more stacks: "), std::string::npos) << line;
  EXPECT_NE(
      line.find(" are in use, of 131072 bytes each unless their fibers have asked for others; look what the fibers"),
      std::string::npos)
      << line;
}

}  // namespace
}  // namespace weft::scheduling_group
