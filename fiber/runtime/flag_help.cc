// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/flag_help.h"

#include <gflags/gflags.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>

#include "weft/version.h"

DECLARE_bool(helpshort);
DECLARE_bool(version);

namespace weft::fiber::detail {

namespace {

struct Group {
  const char* name;
  std::initializer_list<const char*> flags;  // without "fiber_"
};

// In the order of fiber::Options where possible; tests/fiber/runtime_flags_test.cc: each flag is in one group.
constexpr Group kGroups[] = {
    {"workers and scheduling groups",
     {"concurrency_hint", "scheduling_group_size", "numa_aware", "worker_accessible_cpus",
      "worker_disallow_cpu_migration", "topology"}},
    {"scheduling", {"scheduling_name", "work_stealing_ratio", "cross_numa_work_stealing_ratio", "run_queue_size"}},
    {"stacks", {"stack_size", "stack_enable_guard_page", "stack_guard_size", "stack_pool_size", "record_stack_every"}},
    {"input, output and blocking calls", {"blocking_threads", "blocking_queue_size", "blocking_idle_timeout_ms"}},
    {"start, end and limits",
     {"start_timeout_ms", "terminate_timeout_ms", "limit_ready_wait_ms", "limit_fibers", "slice_warning_ms",
      "slice_error_ms"}},
};

// gflags checks values twice.
bool flags_follow = false;
bool version_follows = false;

void PrintFlags() { std::fputs(("\n  Weft " WEFT_VERSION "\n" + DescribeFlags()).c_str(), stdout); }
void PrintVersion() { std::fputs("Weft " WEFT_VERSION "\n", stdout); }

bool IsHelpWanted(const char* /*flag*/, bool value) {
  if (value && !flags_follow) flags_follow = std::atexit(&PrintFlags) == 0;
  return true;
}

bool IsVersionWanted(const char* /*flag*/, bool value) {
  if (value && !version_follows) version_follows = std::atexit(&PrintVersion) == 0;
  return true;
}

}  // namespace

void InstallFlagHelp() {
  gflags::CommandLineFlagInfo info;
  // Linked statically, gflags may define its own flags later than this: then they stay unchanged.
  if (!gflags::GetCommandLineFlagInfo("helpshort", &info) || !gflags::GetCommandLineFlagInfo("version", &info)) return;
  gflags::RegisterFlagValidator(&FLAGS_helpshort, &IsHelpWanted);
  gflags::RegisterFlagValidator(&FLAGS_version, &IsVersionWanted);
}

std::string DescribeFlags() {
  std::string text;
  for (const Group& group : kGroups) {
    text.append("\n  Flags of Weft: ").append(group.name).append(":\n");
    for (const char* name : group.flags) {
      gflags::CommandLineFlagInfo info;
      if (gflags::GetCommandLineFlagInfo((std::string("fiber_") + name).c_str(), &info)) {
        text.append(gflags::DescribeOneFlag(info));
      }
    }
  }
  return text;
}

}  // namespace weft::fiber::detail
