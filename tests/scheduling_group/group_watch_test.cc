// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "weft/base/log_sink.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/scheduling_group.h"
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

// One look a second for so long; the seconds at which it is said. lasts(second): the trouble, then.
template <class Lasts>
std::vector<int> SecondsSaid(SayAgain* say, int from, int to, Lasts lasts) {
  std::vector<int> said;
  for (int second = from; second <= to; ++second) {
    say->Look(std::chrono::seconds(lasts(second)), 2s, SayAgain::TimePoint(1h + std::chrono::seconds(second)));
    if (!say->due()) continue;
    say->Said();
    said.push_back(second);
  }
  return said;
}

TEST(SayAgain, WhatLastsIsSaidEachTimeThatItHasDoubled) {
  SayAgain say;
  EXPECT_EQ(SecondsSaid(&say, 0, 20, [](int second) { return second; }), (std::vector<int>{2, 4, 8, 16}));
  say.Look(0s, 2s, SayAgain::TimePoint(2h));
  EXPECT_FALSE(say.due());
  EXPECT_FALSE(say.is_so());
  say.Look(2s, 2s, SayAgain::TimePoint(2h));
  EXPECT_TRUE(say.due());
  say.Look(1h, 0s, SayAgain::TimePoint(2h));
  EXPECT_FALSE(say.due());
}

TEST(SayAgain, WhatComesAndGoesIsSaidLessAndLessOften) {
  SayAgain say;
  const auto comes_and_goes = [](int second) { return second % 3; };  // 0, 1, 2, 0, ...
  EXPECT_EQ(SecondsSaid(&say, 0, 600, comes_and_goes), (std::vector<int>{2, 14, 35, 77, 158, 320}));
  // It comes back and stays: at twice the time at most.
  EXPECT_EQ(SecondsSaid(&say, 601, 620, [](int second) { return second - 601; }), (std::vector<int>{605, 609, 617}));
}

TEST(SayAgain, AfterQuietMinutesItIsNew) {
  SayAgain say;
  const auto comes_and_goes = [](int second) { return second % 3; };
  EXPECT_EQ(SecondsSaid(&say, 0, 100, comes_and_goes).size(), 4u);
  EXPECT_EQ(SecondsSaid(&say, 101, 701, [](int) { return 0; }).size(), 0u);
  EXPECT_EQ(SecondsSaid(&say, 702, 730, comes_and_goes), (std::vector<int>{704, 716}));
}

// It counts as said when the log has it.
TEST(SayAgain, WhatWasNotSaidStaysDue) {
  SayAgain say;
  for (int second = 2; second < 5; ++second) {
    say.Look(std::chrono::seconds(second), 2s, SayAgain::TimePoint(1h + std::chrono::seconds(second)));
    EXPECT_TRUE(say.due());
  }
}

// Sees them as often as one look needs.
void LookAt(StackGrowth* growth, std::size_t in_use) {
  for (unsigned i = 0; i < StackGrowth::kSeenPerLook; ++i) growth->See(in_use);
}

TEST(StackGrowth, ThreeTimesMoreIsGrowthAndLessIsItsEnd) {
  StackGrowth growth;
  for (const std::size_t in_use : {1000u, 1030u}) {
    LookAt(&growth, in_use);
    EXPECT_FALSE(growth.grows()) << in_use;
  }
  LookAt(&growth, 1060);
  EXPECT_TRUE(growth.grows());
  EXPECT_EQ(growth.in_use(), 1060u);
  LookAt(&growth, 1060);
  EXPECT_TRUE(growth.grows());
  LookAt(&growth, 1000);
  EXPECT_FALSE(growth.grows());
}

// A leak: ten more at each look, and now and then a few less.
TEST(StackGrowth, SlowGrowthIsGrowth) {
  StackGrowth growth;
  std::size_t in_use = 100'000;
  for (int i = 0; i < 10'000 && !growth.grows(); ++i) LookAt(&growth, in_use += i % 4 == 3 ? -100 : 100);
  EXPECT_TRUE(growth.grows());
  EXPECT_LT(in_use, 110'000u);
}

TEST(StackGrowth, ManyThatStayAboutTheSameAreNoGrowth) {
  StackGrowth growth;
  LookAt(&growth, 600'000);
  for (const int jitter : {0, 300, 700, 1200, -1000, -200, 100, 900, 1100, 1199, 0, 100, 200, 300, 400, 500, 600}) {
    LookAt(&growth, static_cast<std::size_t>(1'200'000 + jitter));
    EXPECT_FALSE(growth.grows()) << jitter;
  }
}

// They grew, and then for longer than an hour not: a bit more is no news.
TEST(StackGrowth, WhatGrewLongAgoDoesNotCount) {
  StackGrowth growth;
  for (const std::size_t in_use : {1000u, 1100u}) LookAt(&growth, in_use);
  for (unsigned i = 0; i < StackGrowth::kMostLooks; ++i) LookAt(&growth, 1100);
  for (const std::size_t in_use : {1200u, 1300u}) LookAt(&growth, in_use);
  EXPECT_FALSE(growth.grows());
  LookAt(&growth, 1400);
  EXPECT_TRUE(growth.grows());
  for (unsigned i = 0; i <= StackGrowth::kMostLooks; ++i) LookAt(&growth, 1400);
  EXPECT_FALSE(growth.grows());
}

// A burst at each look, each larger than the last: in between they are few.
TEST(StackGrowth, WhatComesAndGoesIsNoGrowth) {
  StackGrowth growth;
  for (std::size_t i = 0; i < 100; ++i) {
    for (unsigned j = 0; j + 1 < StackGrowth::kSeenPerLook; ++j) growth.See(1000 + 100 * i);
    growth.See(10);
    EXPECT_FALSE(growth.grows()) << i;
  }
}

class LateTimersTest : public ::testing::Test {
 protected:
  LateTimersTest() {
    read_timers = [](const SchedulingGroup&) {
      return gets_on && reads++ % 2 == 1 ? TimerThread{.callback = timers.callback}
                                         : timers;  // It is read at a look, and for a line.
    };
  }
  ~LateTimersTest() override {
    read_timers = nullptr;
    timers = {};
    gets_on = false;
    reads = 0;
  }
  std::optional<LateTimers> Look(std::string_view callback, std::chrono::milliseconds after = 10ms) {
    timers = {.late = 1h, .thread = 1 << 30, .callback = callback};
    watch_.Look(&group_, now_ += after);
    const auto trouble = watch_.FindTrouble(group_, /*many_stacks=*/1'000'000, [](const auto&) {});
    if (!trouble.has_value()) return std::nullopt;
    watch_.Said(*trouble);
    return std::get<LateTimers>(*trouble);
  }
  static inline TimerThread timers;
  static inline bool gets_on = false;
  static inline int reads = 0;
  SchedulingGroup group_{{.workers = 1, .stall_warning = 1s}};
  GroupWatch watch_;
  GroupWatch::TimePoint now_{1h};
};

// Those that were set for a time that has passed are late from the start: half the limit, and then as long as seen.
TEST_F(LateTimersTest, AreSaidAtTheLimitAndWhenItHasDoubled) {
  std::vector<int> said;
  for (int look = 0; look < 500; ++look) {
    const auto trouble = Look("Refresh");
    if (!trouble.has_value()) continue;
    EXPECT_EQ(trouble->timers.callback, "Refresh");
    said.push_back(look);
  }
  EXPECT_EQ(said, (std::vector<int>{50, 150, 350}));
}

// On a busy machine the Watchdog looks seldom.
TEST_F(LateTimersTest, FewLooksAreNoEvidence) {
  std::optional<LateTimers> trouble;
  unsigned looks = 0;
  while (!(trouble = Look("Refresh", 100ms)).has_value()) ++looks;
  EXPECT_EQ(looks, GroupWatch::kLeastLooks - 1);
  EXPECT_EQ(trouble->timers.callback, "Refresh");
}

TEST_F(LateTimersTest, ACallbackThatHasJustBegunIsNotTheCause) {
  int said = 0;
  for (int look = 0; look < 100; ++look) {
    const auto trouble = Look(look % 2 == 0 ? "one" : "other");
    if (!trouble.has_value()) continue;
    EXPECT_EQ(trouble->timers.callback, "");
    ++said;
  }
  EXPECT_EQ(said, 1);
}

TEST_F(LateTimersTest, AreNotSaidIfTheThreadHasGotOnMeanwhile) {
  for (int look = 0; look < 49; ++look) EXPECT_FALSE(Look("Refresh").has_value());
  gets_on = true;
  for (int look = 0; look < 50; ++look) {
    reads = 0;
    EXPECT_FALSE(Look("Refresh").has_value());
  }
}

class ManyStacksTest : public ::testing::Test {
 protected:
  ManyStacksTest() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      if (text.find("more and more stacks") == std::string_view::npos) return;
      if (++tries_ == 1) throw std::bad_alloc();
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
  std::atomic<int> tries_{0};

 private:
  std::mutex mutex_;
  std::string line_;
};

// For the first line there is no memory: it comes at a later check.
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
  while (tries_ == 0) {
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(group.Start(wait));
    AwaitChecks(2);
  }
  while (Line().empty()) std::this_thread::yield();
  enough = true;
  group.Drain();
  const std::string line = Line();
  EXPECT_NE(line.find("scheduling group 7 uses more and more stacks: "), std::string::npos) << line;
  EXPECT_NE(line.find(" are in use (in all groups: "), std::string::npos) << line;
  EXPECT_NE(line.find("); look what the fibers below wait for, or start less"), std::string::npos) << line;
}

// A turn is over before two looks have seen it, so the group gets on; but a hundred of them take much longer than that.
TEST(LongWaits, AreSaidOfAGroupThatGetsOn) {
  std::mutex mutex;
  std::string said;
  std::atomic<bool> enough{false};
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
    if (text.find("has more work") == std::string_view::npos) return;
    const std::lock_guard lock(mutex);
    said = text;
    enough = true;
  });
  {
    testing::WorkerGroup group({.id = 7, .workers = 1, .start_timeout = testing::kPatientStart, .stall_warning = 10ms});
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(group.Start([&enough] {
        while (!enough) {
          for (const auto end = std::chrono::steady_clock::now() + 2ms; std::chrono::steady_clock::now() < end;)
            continue;
          YieldCurrentFiber();
        }
      }));
    }
    while (!enough) std::this_thread::yield();
    group.Drain();
  }
  base::SetLogSink({});
  EXPECT_NE(said.find("scheduling group 7 has more work than its workers can do: of "), std::string::npos) << said;
  EXPECT_NE(said.find(" ready fibers the oldest has waited for "), std::string::npos) << said;
  EXPECT_NE(said.find("; take less work at a time"), std::string::npos) << said;
}

}  // namespace
}  // namespace weft::scheduling_group
