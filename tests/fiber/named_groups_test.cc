// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A runtime with named groups (RuntimeOptions::groups): what runs where, and what keeps apart.

#include <dirent.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/log_sink.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/timer/fiber_timer.h"
#include "weft/timer/queue/timer_shard.h"

#include "fiber/runtime_fixture.h"
#include "testing/patience.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using fiber::NamedGroupsOf;
using fiber::RuntimeOf;

std::string NameOfMyGroup() { return GetSchedulingGroupName(GetCurrentSchedulingGroupIndex()); }

// Of the group in which such a fiber runs.
std::string NameAfterStart(const FiberAttributes& attributes) {
  std::string name;
  Fiber(attributes, [&] { name = NameOfMyGroup(); }).Join();
  return name;
}

void RunIn(std::string_view name, const std::function<void()>& f) {
  Fiber({.scheduling_group = SchedulingGroupNamed(name)}, f).Join();
}

// While it lives a fiber keeps a worker of the group from all others.
class ComputingFiber {
 public:
  explicit ComputingFiber(std::string_view name)
      : fiber_({.scheduling_group = SchedulingGroupNamed(name), .scheduling_group_local = true}, [this] {
          runs_ = true;
          while (!enough_.load(std::memory_order_relaxed)) continue;
        }) {
    while (!runs_) std::this_thread::yield();
  }
  ~ComputingFiber() {
    enough_ = true;
    fiber_.Join();
  }

 private:
  std::atomic<bool> runs_{false};
  std::atomic<bool> enough_{false};
  Fiber fiber_;
};

TEST(NamedGroupsAtWork, WhatPlainThreadsStartGoesToTheFirst) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(NameAfterStart({}), "first");
    EXPECT_EQ(NameAfterStart({.scheduling_group = kNearestSchedulingGroup}), "first");
    EXPECT_EQ(NameAfterStart({.scheduling_group = kUnspecifiedSchedulingGroup}), "first");
    EXPECT_EQ(NameAfterStart({.scheduling_group = SchedulingGroupNamed("first")}), "first");
    EXPECT_EQ(NameAfterStart({.scheduling_group = SchedulingGroupNamed("second")}), "second");
    EXPECT_EQ(NameAfterStart({.scheduling_group = 1}), "second");
  }
  std::string name;
  Fiber([&] { name = NameOfMyGroup(); }).Join();
  EXPECT_EQ(name, "first");
}

TEST(NamedGroupsAtWork, WhatFibersStartStaysUnderTheirName) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  RunIn("second", [] {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(NameAfterStart({}), "second");
      EXPECT_EQ(NameAfterStart({.scheduling_group = kUnspecifiedSchedulingGroup}), "second");
      EXPECT_EQ(NameAfterStart({.launch_policy = Launch::Dispatch, .scheduling_group = SchedulingGroupNamed("second")}),
                "second");
      EXPECT_EQ(NameAfterStart({.scheduling_group = SchedulingGroupNamed("first")}), "first");
    }
  });
}

TEST(NamedGroupsAtWork, AFiberLoopIsOfNoName) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  FiberLoop loop;
  ASSERT_TRUE(loop.AddTask([] {
    for (int i = 0; i < 4; ++i) {
      std::string name;
      Fiber({.scheduling_group = kUnspecifiedSchedulingGroup}, [&] { name = NameOfMyGroup(); }).Join();
      EXPECT_EQ(name, "first");
    }
  }));
  EXPECT_TRUE(loop.Run(60s));
}

// In groups by their index, of eight starts.
std::array<int, 3> CountStarts(std::size_t scheduling_group) {
  std::array<std::atomic<int>, 3> in_group{};
  for (int i = 0; i < 8; ++i) {
    Fiber({.scheduling_group = scheduling_group, .scheduling_group_local = true}, [&] {
      ++in_group[GetCurrentSchedulingGroupIndex()];
    }).Join();
  }
  return {in_group[0], in_group[1], in_group[2]};
}

TEST(NamedGroupsAtWork, ANameOfSeveralGroupsTakesThemInTurn) {
  RuntimeOptions options = NamedGroupsOf("many:4,other:1");
  options.scheduling_group_size = 2;
  const RuntimeOf runtime(options);
  ASSERT_EQ(GetSchedulingGroupCount(), 3u);
  EXPECT_EQ(CountStarts(SchedulingGroupNamed("many")), (std::array<int, 3>{4, 4, 0}));
  EXPECT_EQ(CountStarts(kUnspecifiedSchedulingGroup), (std::array<int, 3>{4, 4, 0}));
  // Each stays where it is, if that has the name. (Its worker has a count of its own for turns.)
  Fiber({.scheduling_group = 1, .scheduling_group_local = true}, [] {
    EXPECT_EQ(CountStarts(SchedulingGroupNamed("many")), (std::array<int, 3>{0, 8, 0}));
    const auto unspecified = CountStarts(kUnspecifiedSchedulingGroup);
    EXPECT_GE(unspecified[0], 2);
    EXPECT_GE(unspecified[1], 2);
    EXPECT_EQ(CountStarts(SchedulingGroupNamed("other")), (std::array<int, 3>{0, 0, 8}));
  }).Join();
  const std::vector<GroupCounts> counts = GetSchedulingCounts();
  ASSERT_EQ(counts[0].steals.size(), 1u);
  EXPECT_EQ(counts[0].steals[0].group, 1);
  EXPECT_TRUE(counts[2].steals.empty());
}

TEST(NamedGroupsAtWork, CountsHaveTheNameAndNoNeighbours) {
  const RuntimeOf runtime(NamedGroupsOf("first:1,second:1,third:1:shares=second"));
  const std::vector<GroupCounts> counts = GetSchedulingCounts();
  ASSERT_EQ(counts.size(), 3u);
  EXPECT_EQ(counts[0].name, "first");
  EXPECT_EQ(counts[1].name, "second");
  EXPECT_TRUE(counts[0].steals.empty());
  ASSERT_EQ(counts[1].steals.size(), 1u);
  EXPECT_EQ(counts[1].steals[0].group, 2);
  ASSERT_EQ(counts[2].steals.size(), 1u);
  EXPECT_EQ(counts[2].steals[0].group, 1);
}

// A group with a neighbour would have its fibers stolen while its only worker computes.
TEST(NamedGroupsAtWork, FibersWaitForTheirOwnWorkers) {
  const RuntimeOf runtime(NamedGroupsOf("first:4,second:1"));
  std::atomic<int> elsewhere{0};
  std::vector<Fiber> waiting;
  {
    const ComputingFiber computing("second");
    for (int i = 0; i < 20; ++i) {
      waiting.emplace_back(Fiber::Attributes{.scheduling_group = SchedulingGroupNamed("second")}, [&] {
        if (NameOfMyGroup() != "second") ++elsewhere;
        FiberYield();
        if (NameOfMyGroup() != "second") ++elsewhere;
      });
    }
    for (int i = 0; i < 20; ++i) RunIn("first", [] { FiberYield(); });  // Its workers search, and sleep.
  }
  for (Fiber& fiber : waiting) fiber.Join();
  EXPECT_EQ(elsewhere, 0);
}

TEST(NamedGroupsAtWork, NamesThatShareTakeFibersOfEachOther) {
  const RuntimeOf runtime(NamedGroupsOf("first:1,second:1:shares=first"));
  for (const char* computes : {"first", "second"}) {
    const ComputingFiber computing(computes);
    EXPECT_NE(NameAfterStart({.scheduling_group = SchedulingGroupNamed(computes)}), computes);
  }
}

TEST(NamedGroupsAtWork, AGroupThatComputesDelaysNoTimerOfAnother) {
  const RuntimeOf runtime(NamedGroupsOf("first:1,second:1"));
  for (const char* computes : {"first", "second"}) {
    const char* const other = computes == std::string_view("first") ? "second" : "first";
    const ComputingFiber computing(computes);
    RunIn(other, [&] {
      FiberSleepFor(1ms);
      EXPECT_EQ(NameOfMyGroup(), other);
      FiberEvent fired;
      std::string name;
      SetFiberDetachedTimer(std::chrono::steady_clock::now() + 1ms, [&] {
        name = NameOfMyGroup();
        fired.Set();
      });
      fired.Wait();
      EXPECT_EQ(name, other);
      FiberEvent never;
      EXPECT_FALSE(never.Wait(1ms));
    });
  }
}

// Threads take different sets of timers, the more there are.
TEST(NamedGroupsAtWork, ATimerOfAPlainThreadIsOfTheFirstName) {
  const RuntimeOf runtime(NamedGroupsOf("first:1,second:1"));
  for (unsigned i = 0; i < 4 * timer::ShardSet::kOutsideShards; ++i) {
    std::thread([] {
      std::string name;
      FiberEvent fired;
      SetFiberDetachedTimer(std::chrono::steady_clock::now(), [&] {
        name = NameOfMyGroup();
        fired.Set();
      });
      fired.Wait();
      EXPECT_EQ(name, "first");
    }).join();
  }
}

// Whoever wakes a fiber, it goes on under its own name.
TEST(NamedGroupsAtWork, AWokenFiberIsUnderItsOwnName) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  FiberMutex mutex;
  FiberConditionVariable condition;
  int turn = 0;  // Of first, if it is even.
  const auto take_turns = [&](int parity, const std::string& name) {
    for (int round = 0; round < 50; ++round) {
      std::unique_lock lock(mutex);
      EXPECT_EQ(NameOfMyGroup(), name);
      condition.wait(lock, [&] { return turn % 2 == parity; });
      EXPECT_EQ(NameOfMyGroup(), name);
      ++turn;
      condition.notify_all();
      FiberYield();  // The other one waits for the mutex.
      EXPECT_EQ(NameOfMyGroup(), name);
    }
  };
  Fiber first([&] { take_turns(0, "first"); });
  Fiber second({.scheduling_group = SchedulingGroupNamed("second")}, [&] { take_turns(1, "second"); });
  first.Join();
  second.Join();
  EXPECT_EQ(turn, 100);
  // By a plain thread, too.
  FiberEvent event;
  Fiber waiter({.scheduling_group = SchedulingGroupNamed("second")}, [&] {
    event.Wait();
    EXPECT_EQ(NameOfMyGroup(), "second");
  });
  event.Set();
  waiter.Join();
}

TEST(NamedGroupsAtWork, ThreadsHaveTheNamesOfTheirGroups) {
  const RuntimeOf runtime(NamedGroupsOf("first:1,indexing_of_pages:2"));
  RunIn("first", [] { FiberSleepFor(1ms); });  // Now the threads have their names.
  RunIn("indexing_of_pages", [] { FiberSleepFor(1ms); });
  const auto names_of_threads = [] {
    std::set<std::string> names;
    DIR* const directory = ::opendir("/proc/self/task");
    while (const dirent* entry = ::readdir(directory)) {
      std::ifstream file(std::string("/proc/self/task/").append(entry->d_name).append("/comm"));
      std::string name;
      if (std::getline(file, name)) names.insert(name);
    }
    ::closedir(directory);
    return names;
  };
  const auto end = std::chrono::steady_clock::now() + testing::kSoon;
  for (const char* name : {"first_0_0", "first_0_timer", "indexing_of_1_0", "indexing_of_1_1", "indexin_1_timer"}) {
    while (!names_of_threads().contains(name)) ASSERT_LT(std::chrono::steady_clock::now(), end) << name;
  }
}

TEST(NamedGroupsAtWork, WithoutNamesANameIsAWishThatIsLogged) {
  std::mutex mutex;
  std::string log;
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view text) {
    const std::scoped_lock lock(mutex);
    log.append(text).append("\n");
  });
  for (int i = 0; i < 2; ++i) {
    const RuntimeOf runtime(fiber::Shape{2, 1});
    EXPECT_EQ(SchedulingGroupNamed("batch"), kNearestSchedulingGroup);
    EXPECT_EQ(NameAfterStart({.scheduling_group = SchedulingGroupNamed("batch")}), "");
    EXPECT_EQ(GetSchedulingGroupName(0), "");
  }
  base::SetLogSink(nullptr);
  const std::string line = "SchedulingGroupNamed: no scheduling group has a name (--fiber_groups), so 'batch'";
  const std::size_t first = log.find(line);
  const std::size_t second = log.find(line, first + 1);  // Of the second runtime.
  ASSERT_NE(second, std::string::npos) << log;
  EXPECT_EQ(log.find(line, second + 1), std::string::npos) << log;
}

TEST(NamedGroupsAtWork, EachRuntimeHasItsOwnNames) {
  for (const char* name : {"first", "other", "first"}) {
    const RuntimeOf runtime(NamedGroupsOf(std::string(name) + ":1,second:1"));
    EXPECT_EQ(NameAfterStart({}), name);
    EXPECT_EQ(NameAfterStart({.scheduling_group = SchedulingGroupNamed("second")}), "second");
  }
  const RuntimeOf runtime(fiber::Shape{1, 2});
  EXPECT_EQ(NameAfterStart({}), "");
  EXPECT_EQ(CountStarts(kUnspecifiedSchedulingGroup), (std::array<int, 3>{4, 4, 0}));
}

TEST(NamedGroupsAtWork, AStartThatTheMachineRefusesChangesNothing) {
  RuntimeOptions options = NamedGroupsOf("latency:6,batch:4");
  std::string error;
  EXPECT_FALSE(TryStartRuntime(options, &error));
  EXPECT_EQ(error,
            "the scheduling groups cannot be planned: --fiber_groups=latency:6,batch:4: 10 workers for 8 CPUs: ask for "
            "fewer, or say where each group runs, as in latency:6@0: its CPUs may be fewer, and several groups may "
            "have the same");
  EXPECT_FALSE(IsRuntimeRunning());
  options.groups = "latency:1,latency:1";
  EXPECT_FALSE(TryStartRuntime(options, &error));
  EXPECT_NE(error.find("latency is there twice"), std::string::npos) << error;
  const RuntimeOf runtime(NamedGroupsOf("latency:6,batch:2"));
  EXPECT_EQ(GetConcurrencyHint(), 8u);
}

// One CPU: the kernel shares it out between the groups, and none waits for a fiber of the other.
TEST(NamedGroupsAtWork, SeveralNamesMayShareACpu) {
  RuntimeOptions options = NamedGroupsOf("latency:1@0,batch:1@0");
  options.topology = "core:1 pu:1";
  const RuntimeOf runtime(options);
  const ComputingFiber computing("batch");
  for (int i = 0; i < 10; ++i) RunIn("latency", [] { FiberSleepFor(1ms); });
}

TEST(NamedGroupsInTurn, AFiberLoopMayAskForTheNameOfItsGroup) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  FiberLoop loop;
  ASSERT_TRUE(loop.AddTask([] { EXPECT_EQ(NameOfMyGroup(), ""); }));
  EXPECT_TRUE(loop.Run(60s));
}

TEST(NamedGroupsInTurn, EachNameTakesItsGroupsInTurnAlsoWhenNamesAlternate) {
  RuntimeOptions options = NamedGroupsOf("a:4,b:4");
  options.scheduling_group_size = 2;
  const RuntimeOf runtime(options);
  ASSERT_EQ(GetSchedulingGroupCount(), 4u);
  std::array<std::atomic<int>, 4> in{};
  for (int i = 0; i < 8; ++i) {
    for (const char* name : {"a", "b"}) {
      Fiber({.scheduling_group = SchedulingGroupNamed(name), .scheduling_group_local = true}, [&] {
        ++in[GetCurrentSchedulingGroupIndex()];
      }).Join();
    }
  }
  for (int g = 0; g < 4; ++g) EXPECT_EQ(in[g], 4) << g;
}

TEST(NamedGroupsInTurn, ATimerThreadsCallbackStartsUnderTheNameOfItsGroup) {
  const RuntimeOf runtime(NamedGroupsOf("first:2,second:2"));
  RunIn("second", [] {
    std::string name;
    FiberEvent done;
    const auto id = CreateFiberTimer(std::chrono::steady_clock::now() + 1ms, [&](auto&&...) {
      EXPECT_TRUE(StartFiberDetached([&] {
        name = NameOfMyGroup();
        done.Set();
      }));
    });
    EnableFiberTimer(id);
    done.Wait();
    KillFiberTimer(id);
    EXPECT_EQ(name, "second");
  });
}

}  // namespace
}  // namespace weft
