// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime_options.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

TEST(ValidateOptions, TheDefaultsAreAllowed) { EXPECT_EQ(ValidateOptions(Options()), std::nullopt); }

struct BadValue {
  std::string name;
  std::function<void(Options&)> set;
  std::string flag_and_value;  // The line begins with it.
  std::string allowed;         // The line contains it.

  friend std::ostream& operator<<(std::ostream& out, const BadValue& bad) { return out << bad.flag_and_value; }
};

class RefusesABadValue : public ::testing::TestWithParam<BadValue> {};

TEST_P(RefusesABadValue, WithOneLineThatNamesFlagValueAndRange) {
  Options options;
  GetParam().set(options);
  const std::optional<std::string> line = ValidateOptions(options);
  ASSERT_TRUE(line.has_value());
  EXPECT_TRUE(line->starts_with(GetParam().flag_and_value + ": must be ")) << *line;
  EXPECT_NE(line->find(GetParam().allowed), std::string::npos) << *line;
  EXPECT_EQ(line->find('\n'), std::string::npos) << *line;
}

INSTANTIATE_TEST_SUITE_P(
    Flags, RefusesABadValue,
    ::testing::Values(
        BadValue{"HintNegative", [](Options& o) { o.concurrency_hint = -1; }, "--fiber_concurrency_hint=-1",
                 "in 0..4096"},
        BadValue{"HintHuge", [](Options& o) { o.concurrency_hint = 5000; }, "--fiber_concurrency_hint=5000",
                 "in 0..4096"},
        BadValue{"GroupNegative", [](Options& o) { o.scheduling_group_size = -8; }, "--fiber_scheduling_group_size=-8",
                 "in 0..64"},
        BadValue{"GroupTooLarge", [](Options& o) { o.scheduling_group_size = 65; }, "--fiber_scheduling_group_size=65",
                 "in 0..64"},
        BadValue{"CpusBackwards", [](Options& o) { o.worker_accessible_cpus = std::string("4-0"); },
                 "--fiber_worker_accessible_cpus=4-0", "as in 0-4,6,7"},
        BadValue{"CpusNoNumber", [](Options& o) { o.worker_accessible_cpus = std::string("0,x"); },
                 "--fiber_worker_accessible_cpus=0,x", "as in 0-4,6,7"},
        BadValue{"CpusNewline", [](Options& o) { o.worker_accessible_cpus = std::string("0\n1"); },
                 "--fiber_worker_accessible_cpus=0 1", "as in 0-4,6,7"},
        BadValue{"CpusNotThere", [](Options& o) { o.worker_accessible_cpus = std::string("60000"); },
                 "--fiber_worker_accessible_cpus=60000", "may use"},
        BadValue{"CpusNotInTheTopologyGiven",
                 [](Options& o) {
                   o.topology = std::string("numa:2 core:2 pu:1");
                   o.worker_accessible_cpus = std::string("4");
                 },
                 "--fiber_worker_accessible_cpus=4", "may use"},
        BadValue{"PolicyUnknown", [](Options& o) { o.scheduling_name = std::string("v0"); },
                 "--fiber_scheduling_name=v0", "v1"},
        BadValue{"PolicyEmpty", [](Options& o) { o.scheduling_name = std::string(""); },
                 "--fiber_scheduling_name=", "v1"},
        BadValue{"RatioNegative", [](Options& o) { o.work_stealing_ratio = -1; }, "--fiber_work_stealing_ratio=-1",
                 "in 0..1000000"},
        BadValue{"CrossRatioHuge", [](Options& o) { o.cross_numa_work_stealing_ratio = 1'000'001; },
                 "--fiber_cross_numa_work_stealing_ratio=1000001", "in 0..1000000"},
        BadValue{"QueueNotAPower", [](Options& o) { o.run_queue_size = 1000; }, "--fiber_run_queue_size=1000",
                 "a power of two in 16..16777216"},
        BadValue{"QueueZero", [](Options& o) { o.run_queue_size = 0; }, "--fiber_run_queue_size=0", "a power of two"},
        BadValue{"QueueNegative", [](Options& o) { o.run_queue_size = -16; }, "--fiber_run_queue_size=-16",
                 "a power of two"},
        BadValue{"QueueSmall", [](Options& o) { o.run_queue_size = 8; }, "--fiber_run_queue_size=8", "16.."},
        BadValue{"QueueLarge", [](Options& o) { o.run_queue_size = 1 << 25; }, "--fiber_run_queue_size=33554432",
                 "..16777216"},
        BadValue{"GuardSmall", [](Options& o) { o.stack_guard_size = 0; }, "--fiber_stack_guard_size=0",
                 "in 4096..16777216"},
        BadValue{"GuardLarge", [](Options& o) { o.stack_guard_size = 1 << 25; }, "--fiber_stack_guard_size=33554432",
                 "..16777216"},
        BadValue{"StackSmall", [](Options& o) { o.stack_size = 4096; }, "--fiber_stack_size=4096", "in 16384.."},
        BadValue{"StackLarge", [](Options& o) { o.stack_size = std::int64_t{1} << 40; },
                 "--fiber_stack_size=1099511627776", "..1073741824"},
        BadValue{"RecordNegative", [](Options& o) { o.record_stack_every = -1; }, "--fiber_record_stack_every=-1",
                 "in 0.."},
        BadValue{"PoolNegative", [](Options& o) { o.stack_pool_size = -1; }, "--fiber_stack_pool_size=-1", "in 0.."},
        BadValue{"BlockingThreadsNone", [](Options& o) { o.blocking_threads = 0; }, "--fiber_blocking_threads=0",
                 "in 1..4096"},
        BadValue{"BlockingQueueNone", [](Options& o) { o.blocking_queue_size = 0; }, "--fiber_blocking_queue_size=0",
                 "in 1..16777216"},
        BadValue{"BlockingIdleNegative", [](Options& o) { o.blocking_idle_timeout = -1ms; },
                 "--fiber_blocking_idle_timeout_ms=-1", "in 0..86400000"},
        BadValue{"TopologyNonsense", [](Options& o) { o.topology = std::string("no such machine"); },
                 "--fiber_topology=no such machine", "hwloc synthetic string"},
        BadValue{"StartTimeoutNegative", [](Options& o) { o.start_timeout = -1ms; }, "--fiber_start_timeout_ms=-1",
                 "in 0..86400000"},
        BadValue{"TerminateTimeoutHuge", [](Options& o) { o.terminate_timeout = 48h; },
                 "--fiber_terminate_timeout_ms=172800000", "in 0..86400000"},
        BadValue{"LimitReadyWaitNegative", [](Options& o) { o.limit_ready_wait = -1ms; },
                 "--fiber_limit_ready_wait_ms=-1", "in 0..60000 (0: off)"},
        BadValue{"LimitReadyWaitHuge", [](Options& o) { o.limit_ready_wait = 61s; },
                 "--fiber_limit_ready_wait_ms=61000", "in 0..60000"},
        BadValue{"SliceWarningNegative", [](Options& o) { o.slice_warning = -1ms; }, "--fiber_slice_warning_ms=-1",
                 "in 0..86400000 (0: off)"},
        BadValue{"SliceErrorHuge", [](Options& o) { o.slice_error = 25h; }, "--fiber_slice_error_ms=90000000",
                 "in 0..86400000 (0: off)"},
        BadValue{"LimitFibersNegative", [](Options& o) { o.limit_fibers = -5; }, "--fiber_limit_fibers=-5",
                 "in 0..1000000000 (0: off)"}),
    [](const auto& info) { return info.param.name; });

TEST(ValidateOptions, AllowsWhatIsJustInRange) {
  const std::function<void(Options&)> changes[] = {
      [](Options& o) { o.concurrency_hint = 4096; },
      [](Options& o) { o.scheduling_group_size = 1; },
      [](Options& o) { o.scheduling_group_size = 64; },
      [](Options& o) { o.work_stealing_ratio = 0; },
      [](Options& o) { o.run_queue_size = 16; },
      [](Options& o) { o.run_queue_size = 1 << 24; },
      [](Options& o) { o.stack_size = 16 * 1024; },
      [](Options& o) { o.stack_size = 100'001; },  // Rounded up to whole pages.
      [](Options& o) { o.stack_pool_size = 0; },
      [](Options& o) { o.start_timeout = 0ms; },
      [](Options& o) { o.terminate_timeout = 0ms; },
      [](Options& o) { o.limit_ready_wait = 60s; },
      [](Options& o) { o.limit_fibers = 1; },
      [](Options& o) { o.slice_warning = 24h; },
      [](Options& o) { o.slice_error = 1ms; },
      [](Options& o) { o.topology = std::string("numa:4 core:8 pu:2"); },
      [](Options& o) {
        o.topology = std::string("numa:2 core:8 pu:1");
        o.worker_accessible_cpus = std::string("0-3,8-11");
      },
      [](Options& o) { o.numa_aware = NumaAware::kOn; },  // Also on a machine with one node.
  };
  for (const auto& change : changes) {
    Options options;
    change(options);
    EXPECT_EQ(ValidateOptions(options), std::nullopt);
  }
}

TEST(ParseNumaAware, KnowsThreeWords) {
  EXPECT_EQ(ParseNumaAware("auto"), NumaAware::kAuto);
  EXPECT_EQ(ParseNumaAware("on"), NumaAware::kOn);
  EXPECT_EQ(ParseNumaAware("off"), NumaAware::kOff);
  for (const char* text : {"", "ON", "true", "1", "auto "}) EXPECT_EQ(ParseNumaAware(text), std::nullopt) << text;
}

}  // namespace
}  // namespace weft::fiber
