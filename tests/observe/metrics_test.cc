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
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/io/io_fixture.h"
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

TEST(MetricsTest, TimersAreCountedAndHowLateTheyFire) {
  const fiber::RuntimeOf runtime({1, 1});
  const std::uint64_t far = SetFiberTimer(std::chrono::hours(1), [] {});
  Fiber([] {
    for (int i = 0; i < 5; ++i) FiberSleepFor(std::chrono::milliseconds(1));
  }).Join();
  std::string page = Page(Metrics());
  EXPECT_GE(ValueOf(page, "weft_timers_set_total{group=\"0\"}"), 6);
  const double fired = ValueOf(page, "weft_timers_fired_total{group=\"0\"}");
  EXPECT_GE(fired, 5);
  EXPECT_EQ(ValueOf(page, "weft_timer_lateness_seconds_count{group=\"0\"}"), fired);
  EXPECT_EQ(ValueOf(page, "weft_timer_lateness_seconds_bucket{group=\"0\",le=\"+Inf\"}"), fired);
  EXPECT_GE(ValueOf(page, "weft_timers_armed{group=\"0\"}"), 1);
  KillFiberTimer(far);
  EXPECT_EQ(ValueOf(Page(Metrics()), "weft_timers_armed{group=\"0\"}"), 0);
}

TEST(MetricsTest, PollsAndDescriptorsAreCounted) {
  const fiber::RuntimeOf runtime({1, 1});
  EXPECT_EQ(ValueOf(Page(Metrics()), "weft_descriptors{group=\"0\"}"), 0);
  Fiber([] {
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    Fiber client([&] {
      io::TcpStream stream;
      EXPECT_FALSE(stream.Connect(listener.local_address(), io::Soon()));
    });
    io::TcpStream accepted;
    EXPECT_FALSE(listener.Accept(&accepted, io::Soon()));
    client.Join();
    EXPECT_GE(ValueOf(Page(Metrics()), "weft_descriptors{group=\"0\"}"), 1);
  }).Join();
  const std::string page = Page(Metrics());
  EXPECT_EQ(ValueOf(page, "weft_descriptors{group=\"0\"}"), 0);
  EXPECT_GE(ValueOf(page, "weft_poll_events_total{group=\"0\"}"), 1);
  EXPECT_GE(ValueOf(page, "weft_polls_total{group=\"0\"}") + ValueOf(page, "weft_poll_waits_total{group=\"0\"}"), 1);
}

TEST(MetricsTest, CancellationsAreCountedByTheirReason) {
  const fiber::RuntimeOf runtime({1, 1});
  const RuntimeMetrics before = Metrics();
  Fiber([] {
    FiberScope scope;
    scope.Cancel();
    scope.Cancel();  // It was before.
    FiberScope limited({.deadline = Deadline(std::chrono::milliseconds(1))});
    FiberEvent never;
    ASSERT_TRUE(limited.Spawn([&] { never.Wait(); }));
    limited.Wait();
  }).Join();
  const RuntimeMetrics after = Metrics();
  EXPECT_EQ(after.cancellations, before.cancellations + 1);
  EXPECT_EQ(after.deadlines_passed, before.deadlines_passed + 1);
  EXPECT_EQ(ValueOf(Page(after), "weft_cancellations_total{reason=\"deadline\"}"),
            static_cast<double>(after.deadlines_passed));
}

TEST(MetricsTest, LongSlicesAreCountedWhenTheyAreOver) {
  const fiber::RuntimeOf runtime({1, 1});
  const auto count = [] { return Metrics().long_slices.fibers(); };
  const auto& watchdog = scheduling_group::Watchdog::Get();
  const std::uint64_t before = count();
  Fiber([&] {
    const std::uint64_t until = watchdog.checks() + 5;
    while (watchdog.checks() < until) continue;
    EXPECT_EQ(count(), before) << "it is not over";
  }).Join();
  Fiber([&] {
    while (count() == before) FiberYield();
  }).Join();
  EXPECT_GE(ValueOf(Page(Metrics()), "weft_long_slice_seconds_sum"), 0.01);
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
    text.Add(
        {{"one",
          io::TcpServer::Counts{
              .accepted = 30, .refused = 10, .over_host_limit = 1, .not_admitted = 2, .not_started = 3, .open = 2}},
         {"two\n\"\\", io::TcpServer::Counts{}}});
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
