// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What the Watchdog says without being asked: all workers of a group are stuck, and fibers are ready
// (--fiber_stall_warning_ms); timers are late; a group works while another one sleeps; descriptors are near their
// limit.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

class StallWarningTest : public ::testing::TestWithParam<Shape> {
 protected:
  StallWarningTest() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      if (text.find(wanted_) == std::string_view::npos) return;
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
      ++count_;
    });
    RuntimeOptions options = OptionsOf(GetParam());
    options.stall_warning = 30ms;
    StartRuntime(options);
  }
  ~StallWarningTest() override {
    EXPECT_EQ(TerminateRuntime(), std::size_t{0});
    base::SetLogSink({});
  }
  static FiberAttributes InGroup(int group) {
    return {.scheduling_group = static_cast<std::size_t>(group), .scheduling_group_local = true};
  }
  static int groups() { return GetParam().groups; }
  static int workers() { return GetParam().workers; }
  // In all workers of all groups; then five fibers a group are ready.
  template <class F>
  void Occupy(F f) {
    std::atomic<int> busy{0};
    for (int g = 0; g < groups(); ++g) {
      for (int w = 0; w < workers(); ++w) {
        ASSERT_TRUE(StartFiberDetached(InGroup(g), [&busy, f] {
          ++busy;
          f();
        }));
      }
    }
    while (busy != groups() * workers()) std::this_thread::yield();
    for (int i = 0; i < 5 * groups(); ++i) ASSERT_TRUE(StartFiberDetached(InGroup(i % groups()), [] {}));
  }
  std::string LineWith(const std::string& text) {
    for (;;) {
      {
        const std::lock_guard lock(mutex_);
        for (const std::string& line : lines_) {
          if (line.find(text) != std::string::npos) return line;
        }
      }
      std::this_thread::yield();
    }
  }
  std::atomic<int> count_{0};
  std::string wanted_ = "stands still";

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, StallWarningTest, ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{2, 2}), &NameOf);

TEST_P(StallWarningTest, SaysThatWorkersAreBlockedAndWhere) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  Occupy([fd = ends[0]] {
    char byte;
    EXPECT_EQ(::read(fd, &byte, 1), 1);
  });
  const std::string line = LineWith("read()");
  EXPECT_NE(line.find("scheduling group "), std::string::npos) << line;
  EXPECT_NE(line.find(" stands still: 5 fibers are ready, and no worker has switched for "), std::string::npos) << line;
  EXPECT_NE(line.find("worker 0 (thread "), std::string::npos) << line;
  EXPECT_NE(line.find(") is blocked in read()"), std::string::npos) << line;
  EXPECT_NE(line.find("; a call that blocks belongs into FiberBlocking() (--fiber_stall_warning_ms)"),
            std::string::npos)
      << line;
  for (int i = 0; i < groups() * workers(); ++i) ASSERT_EQ(::write(ends[1], "x", 1), 1);
  while (GetFiberCount() != 0) std::this_thread::yield();
  for (const int end : ends) ::close(end);
}

TEST_P(StallWarningTest, SaysThatWorkersComputeAndLessAndLessOften) {
  std::atomic<bool> enough{false};
  const auto begin = std::chrono::steady_clock::now();
  Occupy([&] {
    while (!enough) continue;
  });
  const std::string line = LineWith("computes");
  EXPECT_NE(line.find("; a long computation needs FiberYield()"), std::string::npos) << line;
  while (count_ < 3) std::this_thread::yield();
  // After 30, 60 and 120 ms at the earliest, in one group.
  if (groups() == 1) {
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 100ms);
  }
  enough = true;
  while (GetFiberCount() != 0) std::this_thread::yield();
}

// One worker of two goes on. On a machine whose CPUs are not to be had it may not, and then it is right to say so: then
// once more, ten times at most.
TEST_P(StallWarningTest, AGroupThatGetsOnIsNotNamed) {
  if (workers() == 1) GTEST_SKIP() << "one worker";
  using Clock = std::chrono::steady_clock;
  for (int round = 0;; ++round) {
    if (round == 10) GTEST_SKIP() << "no CPU for 20 ms, again and again";
    count_ = 0;
    const auto begin = Clock::now();
    std::atomic<bool> enough{false};
    std::atomic<Clock::duration> longest{Clock::duration(0)};  // that no fiber of the group ran
    ASSERT_TRUE(StartFiberDetached(InGroup(0), [&] {
      while (!enough) continue;
    }));
    const auto until = Clock::now() + 200ms;  // Of quiet is the test.
    for (int i = 0; i < 2; ++i) {             // One of them is ready.
      ASSERT_TRUE(StartFiberDetached(InGroup(0), [&] {
        for (auto last = begin; last < until;) {
          FiberYield();
          const auto now = Clock::now();
          if (now - last > longest.load()) longest = now - last;
          last = now;
        }
      }));
    }
    while (Clock::now() < until) std::this_thread::yield();
    enough = true;
    while (GetFiberCount() != 0) std::this_thread::yield();
    if (longest.load() > 20ms) continue;
    EXPECT_EQ(count_, 0);
    break;
  }
}

class LateTimersTest : public StallWarningTest {
 protected:
  LateTimersTest() { wanted_ = " are late"; }
  // So that the Watchdog is on.
  void KeepBusy() {
    ASSERT_TRUE(StartFiberDetached(InGroup(0), [this] {
      while (!enough_) FiberYield();
    }));
  }
  void End() {
    enough_ = true;
    while (GetFiberCount() != 0) std::this_thread::yield();
  }
  std::atomic<bool> enough_{false};
};
INSTANTIATE_TEST_SUITE_P(Shapes, LateTimersTest, ::testing::Values(Shape{2, 1}, Shape{2, 2}), &NameOf);

struct ComputeInTheTimerThread {
  std::atomic<bool>* begun;
  const std::atomic<bool>* enough;
  void operator()() const {
    *begun = true;
    while (!*enough) continue;
  }
};

TEST_P(LateTimersTest, AreNamedWithTheCallbackThatHoldsThemUp) {
  KeepBusy();
  std::atomic<bool> begun{false};
  ASSERT_TRUE(StartFiberDetached(InGroup(0), [&] {
    const std::uint64_t timer = CreateFiberTimer(0ms, ComputeInTheTimerThread{&begun, &enough_});
    EnableFiberTimer(timer);
    while (!begun) FiberYield();
    while (!enough_) FiberSleepFor(1ms);  // It is late, unless its worker has kept it.
  }));
  const std::string line = LineWith("the timers of scheduling group 0");
  EXPECT_NE(line.find(" ms, and the timer thread (thread "), std::string::npos) << line;
  EXPECT_NE(line.find(" in the callback "), std::string::npos) << line;
  EXPECT_NE(line.find("ComputeInTheTimerThread; a callback of CreateFiberTimer() must be short: "), std::string::npos)
      << line;
  End();
}

// On a machine whose CPUs are not to be had they may be late, and then it is right to say so.
TEST_P(LateTimersTest, TimersThatFireAreNotNamed) {
  using Clock = std::chrono::steady_clock;
  KeepBusy();
  for (int round = 0;; ++round) {
    if (round == 10) {
      End();
      GTEST_SKIP() << "no CPU for 10 ms, again and again";
    }
    count_ = 0;
    std::atomic<Clock::duration> longest{Clock::duration(0)};
    std::atomic<bool> over{false};
    ASSERT_TRUE(StartFiberDetached(InGroup(0), [&] {
      while (!over) {
        const auto due = Clock::now() + 1ms;
        FiberSleepUntil(due);
        longest = std::max(longest.load(), Clock::now() - due);
      }
    }));
    const auto until = scheduling_group::Watchdog::Get().checks() + 20;
    while (scheduling_group::Watchdog::Get().checks() < until) std::this_thread::yield();
    over = true;
    while (GetFiberCount() != 1) std::this_thread::yield();
    if (longest.load() > 10ms) continue;
    EXPECT_EQ(count_, 0);
    break;
  }
  End();
}

class LoneGroupTest : public StallWarningTest {
 protected:
  LoneGroupTest() { wanted_ = "works alone"; }
  void StartYielders(int count, bool local) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(StartFiberDetached({.scheduling_group = std::size_t{0}, .scheduling_group_local = local}, [this] {
        while (!enough_) FiberYield();
      }));
    }
  }
  void AwaitChecks(std::uint64_t checks) {
    const auto until = scheduling_group::Watchdog::Get().checks() + checks;
    while (scheduling_group::Watchdog::Get().checks() < until) std::this_thread::yield();
  }
  void End() {
    enough_ = true;
    while (GetFiberCount() != 0) std::this_thread::yield();
  }
  std::atomic<bool> enough_{false};
};
INSTANTIATE_TEST_SUITE_P(Shapes, LoneGroupTest, ::testing::Values(Shape{1, 2}, Shape{2, 2}), &NameOf);

TEST_P(LoneGroupTest, IsNamedWhileItsFibersMayNotLeaveIt) {
  StartYielders(10, /*local=*/true);
  const std::string line = LineWith("scheduling group 0 works alone: for ");
  EXPECT_NE(line.find(" now) and no worker was idle, while all workers of group 1 slept; "), std::string::npos) << line;
  EXPECT_NE(line.find("leave FiberAttributes::scheduling_group_local to those that must be"), std::string::npos)
      << line;
  End();
}

TEST_P(LoneGroupTest, IsNotNamedIfTheOthersHelp) {
  StartYielders(10, /*local=*/false);
  AwaitChecks(50);
  EXPECT_EQ(count_, 0);
  End();
}

TEST(LoneGroupOfOptions, SaysWhatForbidsTheOthersToHelp) {
  std::atomic<bool> said{false};
  std::mutex mutex;
  std::string line;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
    if (text.find("works alone") == std::string_view::npos || said) return;
    const std::lock_guard lock(mutex);
    line = text;
    said = true;
  });
  for (const bool named : {false, true}) {
    RuntimeOptions options = named ? NamedGroupsOf("front:1,back:1") : OptionsOf({1, 2});
    options.stall_warning = 30ms;
    options.work_stealing_ratio = 0;
    StartRuntime(options);
    std::atomic<bool> enough{false};
    for (int i = 0; i < 10; ++i) {
      ASSERT_TRUE(StartFiberDetached({.scheduling_group = std::size_t{0}}, [&] {
        while (!enough) FiberYield();
      }));
    }
    if (named) {  // They are told to keep apart.
      const auto until = scheduling_group::Watchdog::Get().checks() + 50;
      while (scheduling_group::Watchdog::Get().checks() < until) std::this_thread::yield();
      EXPECT_FALSE(said);
    } else {
      while (!said) std::this_thread::yield();
    }
    enough = true;
    EXPECT_EQ(TerminateRuntime(), std::size_t{0});
    said = false;
  }
  base::SetLogSink({});
  EXPECT_NE(line.find("; group 1 may not steal from it (--fiber_work_stealing_ratio): allow that"), std::string::npos)
      << line;
  // The program was told to: not before ten times the limit.
  const std::string_view before_time = "works alone: for ";
  EXPECT_GE(std::stol(line.substr(line.find(before_time) + before_time.size())), 300) << line;
}

class DescriptorsTest : public StallWarningTest {
 protected:
  DescriptorsTest() { wanted_ = "descriptors are open"; }
};
INSTANTIATE_TEST_SUITE_P(Shapes, DescriptorsTest, ::testing::Values(Shape{1, 1}), &NameOf);

TEST_P(DescriptorsTest, NearTheLimitAreNamedOnceAndAgainAfterwards) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 200;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> copies;
  std::atomic<bool> enough{false};
  ASSERT_TRUE(StartFiberDetached([&] {  // So that the Watchdog is on.
    while (!enough) FiberYield();
  }));
  const auto& watchdog = scheduling_group::Watchdog::Get();
  const auto looks = [&watchdog](int times) {
    const auto until = watchdog.checks() + static_cast<std::uint64_t>(10 * times);
    while (watchdog.checks() < until) std::this_thread::yield();
  };
  for (int round = 1; round <= 2; ++round) {
    while (copies.empty() || copies.back() < 170) copies.push_back(::dup(2));
    looks(2);
    EXPECT_EQ(count_, round - 1) << "85 %";
    while (copies.back() < 185) copies.push_back(::dup(2));
    while (count_ != round) std::this_thread::yield();
    looks(3);
    EXPECT_EQ(count_, round);
    for (const int copy : copies) ::close(copy);
    copies.clear();
    looks(2);
  }
  const std::string line = LineWith(" of 200 descriptors are open");
  EXPECT_NE(line.find("raise the limit (ulimit -n"), std::string::npos) << line;
  enough = true;
  while (GetFiberCount() != 0) std::this_thread::yield();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace weft::fiber
