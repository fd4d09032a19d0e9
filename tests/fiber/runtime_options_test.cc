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

TEST(ValidateOptions, TheDefaultsAreAllowed) { EXPECT_EQ(ValidateOptions(RuntimeOptions()), std::nullopt); }

struct BadValue {
  std::string name;
  std::function<void(RuntimeOptions&)> set;
  std::string flag_and_value;  // The line begins with it.
  std::string allowed;         // The line contains it.

  friend std::ostream& operator<<(std::ostream& out, const BadValue& bad) { return out << bad.flag_and_value; }
};

class RefusesABadValue : public ::testing::TestWithParam<BadValue> {};

TEST_P(RefusesABadValue, WithOneLineThatNamesFlagValueAndRange) {
  RuntimeOptions options;
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
        BadValue{"HintNegative", [](RuntimeOptions& o) { o.concurrency_hint = -1; }, "--fiber_concurrency_hint=-1",
                 "in 0..4096"},
        BadValue{"HintHuge", [](RuntimeOptions& o) { o.concurrency_hint = 5000; }, "--fiber_concurrency_hint=5000",
                 "in 0..4096"},
        BadValue{"GroupsNonsense", [](RuntimeOptions& o) { o.groups = std::string("latency:0"); },
                 "--fiber_groups=latency:0", "as in latency:6,batch:2 (latency has 0 workers"},
        BadValue{"GroupsAndHint",
                 [](RuntimeOptions& o) {
                   o.groups = std::string("latency:1");
                   o.concurrency_hint = 2;
                 },
                 "--fiber_concurrency_hint=2", "0 beside --fiber_groups"},
        BadValue{"GroupNegative", [](RuntimeOptions& o) { o.scheduling_group_size = -8; },
                 "--fiber_scheduling_group_size=-8", "in 0..64"},
        BadValue{"GroupTooLarge", [](RuntimeOptions& o) { o.scheduling_group_size = 65; },
                 "--fiber_scheduling_group_size=65", "in 0..64"},
        BadValue{"CpusBackwards", [](RuntimeOptions& o) { o.worker_accessible_cpus = std::string("4-0"); },
                 "--fiber_worker_accessible_cpus=4-0", "as in 0-4,6,7"},
        BadValue{"CpusNoNumber", [](RuntimeOptions& o) { o.worker_accessible_cpus = std::string("0,x"); },
                 "--fiber_worker_accessible_cpus=0,x", "as in 0-4,6,7"},
        BadValue{"CpusNewline", [](RuntimeOptions& o) { o.worker_accessible_cpus = std::string("0\n1"); },
                 "--fiber_worker_accessible_cpus=0 1", "as in 0-4,6,7"},
        BadValue{"CpusNotThere", [](RuntimeOptions& o) { o.worker_accessible_cpus = std::string("60000"); },
                 "--fiber_worker_accessible_cpus=60000", "may use"},
        BadValue{"CpusNotInTheTopologyGiven",
                 [](RuntimeOptions& o) {
                   o.topology = std::string("numa:2 core:2 pu:1");
                   o.worker_accessible_cpus = std::string("4");
                 },
                 "--fiber_worker_accessible_cpus=4", "may use"},
        BadValue{"PolicyUnknown", [](RuntimeOptions& o) { o.scheduling_name = std::string("v0"); },
                 "--fiber_scheduling_name=v0", "v1"},
        BadValue{"PolicyEmpty", [](RuntimeOptions& o) { o.scheduling_name = std::string(""); },
                 "--fiber_scheduling_name=", "v1"},
        BadValue{"RatioNegative", [](RuntimeOptions& o) { o.work_stealing_ratio = -1; },
                 "--fiber_work_stealing_ratio=-1", "in 0..1000000"},
        BadValue{"CrossRatioHuge", [](RuntimeOptions& o) { o.cross_numa_work_stealing_ratio = 1'000'001; },
                 "--fiber_cross_numa_work_stealing_ratio=1000001", "in -1..1000000"},
        BadValue{"QueueNotAPower", [](RuntimeOptions& o) { o.run_queue_size = 1000; }, "--fiber_run_queue_size=1000",
                 "a power of two in 16..16777216"},
        BadValue{"QueueZero", [](RuntimeOptions& o) { o.run_queue_size = 0; }, "--fiber_run_queue_size=0",
                 "a power of two"},
        BadValue{"QueueNegative", [](RuntimeOptions& o) { o.run_queue_size = -16; }, "--fiber_run_queue_size=-16",
                 "a power of two"},
        BadValue{"QueueSmall", [](RuntimeOptions& o) { o.run_queue_size = 8; }, "--fiber_run_queue_size=8", "16.."},
        BadValue{"QueueLarge", [](RuntimeOptions& o) { o.run_queue_size = 1 << 25; }, "--fiber_run_queue_size=33554432",
                 "..16777216"},
        BadValue{"GuardSmall", [](RuntimeOptions& o) { o.stack_guard_size = 0; }, "--fiber_stack_guard_size=0",
                 "in 4096..16777216"},
        BadValue{"GuardLarge", [](RuntimeOptions& o) { o.stack_guard_size = 1 << 25; },
                 "--fiber_stack_guard_size=33554432", "..16777216"},
        BadValue{"StackSmall", [](RuntimeOptions& o) { o.stack_size = 4096; }, "--fiber_stack_size=4096", "in 16384.."},
        BadValue{"StackLarge", [](RuntimeOptions& o) { o.stack_size = std::int64_t{1} << 40; },
                 "--fiber_stack_size=1099511627776", "..1073741824"},
        BadValue{"RecordNegative", [](RuntimeOptions& o) { o.record_stack_every = -1; },
                 "--fiber_record_stack_every=-1", "in 0.."},
        BadValue{"PoolNegative", [](RuntimeOptions& o) { o.stack_pool_size = -1; }, "--fiber_stack_pool_size=-1",
                 "in 0.."},
        BadValue{"BlockingThreadsNone", [](RuntimeOptions& o) { o.blocking_threads = 0; }, "--fiber_blocking_threads=0",
                 "in 1..4096"},
        BadValue{"BlockingQueueNone", [](RuntimeOptions& o) { o.blocking_queue_size = 0; },
                 "--fiber_blocking_queue_size=0", "in 1..16777216"},
        BadValue{"BlockingIdleNegative", [](RuntimeOptions& o) { o.blocking_idle_timeout = -1ms; },
                 "--fiber_blocking_idle_timeout_ms=-1", "in 0..86400000"},
        BadValue{"TopologyNonsense", [](RuntimeOptions& o) { o.topology = std::string("no such machine"); },
                 "--fiber_topology=no such machine", "hwloc synthetic string"},
        BadValue{"StartTimeoutNegative", [](RuntimeOptions& o) { o.start_timeout = -1ms; },
                 "--fiber_start_timeout_ms=-1", "in 0..86400000"},
        BadValue{"TerminateTimeoutHuge", [](RuntimeOptions& o) { o.terminate_timeout = 48h; },
                 "--fiber_terminate_timeout_ms=172800000", "in 0..86400000"},
        BadValue{"LimitReadyWaitNegative", [](RuntimeOptions& o) { o.limit_ready_wait = -1ms; },
                 "--fiber_limit_ready_wait_ms=-1", "in 0..60000 (0: off)"},
        BadValue{"LimitReadyWaitHuge", [](RuntimeOptions& o) { o.limit_ready_wait = 61s; },
                 "--fiber_limit_ready_wait_ms=61000", "in 0..60000"},
        BadValue{"StallWarningNegative", [](RuntimeOptions& o) { o.stall_warning = -1ms; },
                 "--fiber_stall_warning_ms=-1", "in 0..86400000 (0: off)"},
        BadValue{"SliceWarningNegative", [](RuntimeOptions& o) { o.slice_warning = -1ms; },
                 "--fiber_slice_warning_ms=-1", "in 0..86400000 (0: off)"},
        BadValue{"SliceErrorHuge", [](RuntimeOptions& o) { o.slice_error = 25h; }, "--fiber_slice_error_ms=90000000",
                 "in 0..86400000 (0: off)"},
        BadValue{"DumpSignalUnknown", [](RuntimeOptions& o) { o.dump_signal = std::string("FUN"); },
                 "--fiber_dump_signal=FUN", "empty or a signal that can be handled, as in USR2"},
        BadValue{"DumpSignalOfAFault", [](RuntimeOptions& o) { o.dump_signal = std::string("SIGSEGV"); },
                 "--fiber_dump_signal=SIGSEGV", "empty or a signal"},
        BadValue{"DumpSignalKill", [](RuntimeOptions& o) { o.dump_signal = std::string("9"); }, "--fiber_dump_signal=9",
                 "empty or a signal"},
        BadValue{"LimitFibersNegative", [](RuntimeOptions& o) { o.limit_fibers = -5; }, "--fiber_limit_fibers=-5",
                 "in 0..1000000000 (0: off)"}),
    [](const auto& info) { return info.param.name; });

TEST(ValidateOptions, AllowsWhatIsJustInRange) {
  const std::function<void(RuntimeOptions&)> changes[] = {
      [](RuntimeOptions& o) { o.concurrency_hint = 4096; },
      [](RuntimeOptions& o) { o.groups = std::string("latency:6@0-4,6,batch:2:shares=latency"); },
      [](RuntimeOptions& o) { o.scheduling_group_size = 1; },
      [](RuntimeOptions& o) { o.scheduling_group_size = 64; },
      [](RuntimeOptions& o) { o.work_stealing_ratio = 0; },
      [](RuntimeOptions& o) { o.run_queue_size = 16; },
      [](RuntimeOptions& o) { o.run_queue_size = 1 << 24; },
      [](RuntimeOptions& o) { o.stack_size = 16 * 1024; },
      [](RuntimeOptions& o) { o.stack_size = 100'001; },  // Rounded up to whole pages.
      [](RuntimeOptions& o) { o.stack_pool_size = 0; },
      [](RuntimeOptions& o) { o.start_timeout = 0ms; },
      [](RuntimeOptions& o) { o.terminate_timeout = 0ms; },
      [](RuntimeOptions& o) { o.limit_ready_wait = 60s; },
      [](RuntimeOptions& o) { o.limit_fibers = 1; },
      [](RuntimeOptions& o) { o.slice_warning = 24h; },
      [](RuntimeOptions& o) { o.slice_error = 1ms; },
      [](RuntimeOptions& o) { o.dump_signal = std::string("USR2"); },
      [](RuntimeOptions& o) { o.dump_signal = std::string("SIGHUP"); },
      [](RuntimeOptions& o) { o.dump_signal = std::string("40"); },
      [](RuntimeOptions& o) { o.topology = std::string("numa:4 core:8 pu:2"); },
      [](RuntimeOptions& o) {
        o.topology = std::string("numa:2 core:8 pu:1");
        o.worker_accessible_cpus = std::string("0-3,8-11");
      },
      [](RuntimeOptions& o) { o.numa_aware = NumaAware::kOn; },  // Also on a machine with one node.
  };
  for (const auto& change : changes) {
    RuntimeOptions options;
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
