// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What metrics say. metrics_parser_test.py reads the pages that ThePages writes to where WEFT_METRICS_PAGES says.

#include "weft/observe/metrics.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/fiber_timer.h"

namespace weft {
namespace {

// The value of the line that begins so; -1: there is none.
double ValueOf(const std::string& page, const std::string& line) {
  const std::size_t at = page.find('\n' + line + ' ');
  return at == std::string::npos ? -1 : std::strtod(page.c_str() + at + line.size() + 2, nullptr);
}

std::string Page(const RuntimeMetrics& metrics, MetricsFormat format = MetricsFormat::kPrometheus) {
  MetricsText text(format);
  text.Add(metrics);
  return text.Take();
}

// Each has run, one has yielded.
void RunSome() {
  for (int i = 0; i < 10; ++i) Fiber([] { FiberYield(); }).Join();
  Fiber([] { EXPECT_EQ(FiberBlocking([] { return 1; }), 1); }).Join();
}

TEST(MetricsTest, TheyCountWhatHasHappened) {
  fiber::RuntimeOf runtime(fiber::Shape{2, 1});
  RunSome();
  FiberEvent end;
  Fiber waits([&] { end.Wait(); });
  const RuntimeMetrics metrics = Metrics();
  end.Set();
  waits.Join();
  EXPECT_EQ(metrics.fibers, 1u);
  ASSERT_EQ(metrics.groups.size(), 1u);
  const std::string page = Page(metrics);
  EXPECT_GE(ValueOf(page, "weft_fibers_begun_total{group=\"0\"}"), 10);
  EXPECT_GE(ValueOf(page, "weft_switches_total{group=\"0\"}"), 20);
  EXPECT_EQ(ValueOf(page, "weft_workers{group=\"0\"}"), 2);
  EXPECT_EQ(ValueOf(page, "weft_blocking_calls_total"), 1);
  const double waited = ValueOf(page, "weft_ready_wait_seconds_count{group=\"0\"}");
  EXPECT_GE(waited, 10);
  EXPECT_EQ(ValueOf(page, "weft_ready_wait_seconds_bucket{group=\"0\",le=\"+Inf\"}"), waited);
  EXPECT_GT(ValueOf(page, "weft_ready_wait_seconds_sum{group=\"0\"}"), 0);
  EXPECT_EQ(page.find("# EOF"), std::string::npos);
}

TEST(MetricsTest, StacksAndTimersAreCountedWhileTheyAreThere) {
  const fiber::RuntimeOf runtime({2, 1});
  const auto page = [] { return Page(Metrics()); };
  FiberEvent end;
  std::atomic<int> begun{0};
  std::vector<Fiber> fibers;
  constexpr int kFibers = 1'000;  // More than workers keep at hand.
  for (int i = 0; i < kFibers; ++i) {
    fibers.emplace_back([&] {
      ++begun;
      end.Wait();
    });
  }
  while (begun != kFibers) std::this_thread::yield();
  std::vector<std::uint64_t> timers;
  for (int i = 0; i < 10; ++i) timers.push_back(SetFiberTimer(std::chrono::hours(1), [] {}));
  EXPECT_GE(ValueOf(page(), "weft_stacks_in_use{group=\"0\"}"), kFibers);
  EXPECT_EQ(ValueOf(page(), "weft_timers"), 10);
  end.Set();
  for (Fiber& fiber : fibers) fiber.Join();
  for (const std::uint64_t timer : timers) KillFiberTimer(timer);
  EXPECT_LT(ValueOf(page(), "weft_stacks_in_use{group=\"0\"}"), kFibers);
  EXPECT_GT(ValueOf(page(), "weft_stacks_cached{group=\"0\"}"), 0);
  EXPECT_EQ(ValueOf(page(), "weft_timers"), 0);
}

TEST(MetricsTest, AGroupWithANameHasItAsALabel) {
  const fiber::RuntimeOf runtime(fiber::NamedGroupsOf("latency:1,batch:2"));
  const std::string page = Page(Metrics());
  EXPECT_EQ(ValueOf(page, "weft_workers{group=\"0\",name=\"latency\"}"), 1);
  EXPECT_EQ(ValueOf(page, "weft_workers{group=\"1\",name=\"batch\"}"), 2);
}

TEST(MetricsTest, TheyMayBeAskedWithoutARuntime) {
  const std::string page = Page(Metrics(), MetricsFormat::kOpenMetrics);
  EXPECT_EQ(ValueOf(page, "weft_fibers"), 0);
  EXPECT_EQ(page.find("group="), std::string::npos);
  EXPECT_TRUE(page.ends_with("# EOF\n"));
}

TEST(MetricsTest, AHistogramIsExactAtPowersOfTwo) {
  scheduling_group::WaitHistogram waits;
  waits.Add(std::chrono::nanoseconds(1023), 1);
  waits.Add(std::chrono::nanoseconds(1024), 2);
  waits.Add(std::chrono::nanoseconds(5000), 4);
  EXPECT_EQ(waits.FibersBelow(std::chrono::nanoseconds(1024)), 1u);
  EXPECT_EQ(waits.FibersBelow(std::chrono::nanoseconds(4096)), 3u);
  EXPECT_EQ(waits.FibersBelow(std::chrono::seconds(1)), 7u);
  EXPECT_NEAR(static_cast<double>(waits.Sum().count()), 1023 + 2 * 1024 + 4 * 5000, 1000);
}

TEST(MetricsTest, TextInLabelsIsWrittenSoThatItComesBack) {
  MetricsText text(MetricsFormat::kPrometheus);
  text.Gauge("own", "A \"help\" \\ of\ntwo lines.", {{{{"name", "a\"b\\c\nd"}}, 1.5}});
  EXPECT_EQ(text.Take(),
            "# HELP own A \"help\" \\\\ of\\ntwo lines.\n# TYPE own gauge\nown{name=\"a\\\"b\\\\c\\nd\"} 1.5\n");
}

TEST(MetricsDeathTest, WhatCannotBeReadIsRefused) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  MetricsText text(MetricsFormat::kPrometheus);
  text.Counter("once", "", {});
  EXPECT_DEATH(text.Counter("once", "", {}), "the family once is written twice");
  EXPECT_DEATH(text.Gauge("no name", "", {}), "\"no name\" is no name of a metric");
  EXPECT_DEATH(text.Gauge("own", "", {{{{"1", "x"}}, 1}}), "\"1\" is no name of a label");
}

TEST(MetricsTest, ThePages) {
  const char* const asked = std::getenv("WEFT_METRICS_PAGES");
  const std::string folder = asked != nullptr ? asked : ::testing::TempDir();
  fiber::RuntimeOf runtime(fiber::Shape{2, 2});
  RunSome();
  for (const auto format : {MetricsFormat::kPrometheus, MetricsFormat::kOpenMetrics}) {
    MetricsText text(format);
    text.Add(Metrics());
    text.Add({{"one", io::TcpServer::Counts{.accepted = 3, .open = 2}}, {"two\n\"\\", io::TcpServer::Counts{}}});
    text.Counter("own", "Of the program: \"quoted\" \\ and\nin two lines.", {{{}, 1e20}});
    text.Gauge("own_limits_seconds", "Not finite.",
               {{{{"is", "inf"}}, std::numeric_limits<double>::infinity()},
                {{{"is", "nan"}}, std::numeric_limits<double>::quiet_NaN()}});
    std::ofstream file(folder + (format == MetricsFormat::kPrometheus ? "/prometheus" : "/openmetrics"));
    EXPECT_TRUE(file << text.Take());
  }
}

}  // namespace
}  // namespace weft
