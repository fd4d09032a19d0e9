// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime_options.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fiber/runtime/dump_signal.h"
#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/machine/topology.h"
#include "weft/scheduling_group/plan/named_groups.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft {

namespace {

// A worker is one bit of a base::WorkerMask.
constexpr std::int64_t kMaxGroupSize = 64;
constexpr std::int64_t kMaxWorkers = 64 * 64;

// The overflow tests use a ring of 16; one of 2^24 slots takes a quarter of a GiB.
constexpr std::int64_t kMinRunQueueSize = 16;
constexpr std::int64_t kMaxRunQueueSize = std::int64_t{1} << 24;

// Below 16 KiB glibc's printf and the unwinder overflow; an arena could not hold one above 1 GiB.
constexpr std::int64_t kMinStackSize = 16 * 1024;
constexpr std::int64_t kMaxStackSize = std::int64_t{1} << 30;

constexpr std::int64_t kMinStackGuardSize = 4096;
constexpr std::int64_t kMaxStackGuardSize = std::int64_t{16} << 20;

constexpr std::int64_t kMaxRatio = 1'000'000;
constexpr std::int64_t kMaxStackPoolSize = 1 << 26;
// The histogram does not measure longer waits (scheduling_group/watch/wait_samples.h).
constexpr std::int64_t kMaxReadyWaitMs = 60'000;
constexpr std::int64_t kMaxFibers = 1'000'000'000;
// A thread takes 8 MiB of address space and a process number: beyond this neither is a sane wish.
constexpr std::int64_t kMaxBlockingThreads = 4096;
constexpr std::int64_t kMaxBlockingQueueSize = 1 << 24;
constexpr std::int64_t kMaxTimeoutMs = std::int64_t{24} * 60 * 60 * 1000;

std::string Refuse(std::string_view flag, std::string_view value, std::string_view rule) {
  std::string line = "--fiber_";
  line.append(flag).append("=").append(value).append(": must be ").append(rule);
  for (char& c : line) {
    if (c == '\n') c = ' ';
  }
  return line;
}

// The check itself writes the ranges, so that text and check cannot disagree.
std::optional<std::string> CheckRange(std::string_view flag, std::int64_t value, std::int64_t low, std::int64_t high,
                                      std::string_view what = "") {
  if (value >= low && value <= high) return std::nullopt;
  std::string rule = "in " + std::to_string(low) + ".." + std::to_string(high);
  if (!what.empty()) rule.append(" (").append(what).append(")");
  return Refuse(flag, std::to_string(value), rule);
}

std::optional<std::string> CheckRunQueueSize(std::int64_t value) {
  if (value >= kMinRunQueueSize && value <= kMaxRunQueueSize &&
      std::has_single_bit(static_cast<std::uint64_t>(value))) {
    return std::nullopt;
  }
  return Refuse("run_queue_size", std::to_string(value),
                "a power of two in " + std::to_string(kMinRunQueueSize) + ".." + std::to_string(kMaxRunQueueSize));
}

std::optional<std::string> CheckWorkers(const RuntimeOptions& options) {
  if (auto error = CheckRange("concurrency_hint", options.concurrency_hint, 0, kMaxWorkers, "0: from the machine")) {
    return error;
  }
  return CheckRange("scheduling_group_size", options.scheduling_group_size, 0, kMaxGroupSize, "0: planned");
}

std::optional<std::string> CheckGroups(const RuntimeOptions& options) {
  if (options.groups.empty()) return std::nullopt;
  std::string why;
  if (!scheduling_group::ParseNamedGroups(options.groups, &why).has_value()) {
    return Refuse("groups", options.groups, "names with numbers of workers, as in latency:6,batch:2 (" + why + ")");
  }
  if (options.concurrency_hint == 0) return std::nullopt;
  return Refuse("concurrency_hint", std::to_string(options.concurrency_hint),
                "0 beside --fiber_groups, which says how many workers each group has");
}

std::optional<std::string> CheckStealing(const RuntimeOptions& options) {
  if (auto error = CheckRange("work_stealing_ratio", options.work_stealing_ratio, 0, kMaxRatio, "0: never"))
    return error;
  return CheckRange("cross_numa_work_stealing_ratio", options.cross_numa_work_stealing_ratio,
                    RuntimeOptions::kStealByDistance, kMaxRatio, "0: never, -1: by distance");
}

std::optional<std::string> CheckSizes(const RuntimeOptions& options) {
  if (auto error = CheckRunQueueSize(options.run_queue_size)) return error;
  if (auto error = CheckRange("stack_size", options.stack_size, kMinStackSize, kMaxStackSize)) return error;
  if (auto error = CheckRange("stack_guard_size", options.stack_guard_size, kMinStackGuardSize, kMaxStackGuardSize,
                              "for none there is --nofiber_stack_enable_guard_page")) {
    return error;
  }
  if (auto error = CheckRange("stack_pool_size", options.stack_pool_size, 0, kMaxStackPoolSize)) return error;
  return CheckRange("record_stack_every", options.record_stack_every, 0, kMaxRatio, "0: never");
}

std::optional<std::string> CheckBlocking(const RuntimeOptions& options) {
  if (auto error = CheckRange("blocking_threads", options.blocking_threads, 1, kMaxBlockingThreads)) return error;
  if (auto error = CheckRange("blocking_queue_size", options.blocking_queue_size, 1, kMaxBlockingQueueSize)) {
    return error;
  }
  return CheckRange("blocking_idle_timeout_ms", options.blocking_idle_timeout.count(), 0, kMaxTimeoutMs);
}

// "v1 or v2": the policies there are now.
std::optional<std::string> CheckSchedulingName(const std::string& name) {
  std::string names;
  for (const std::string& known : scheduling_group::SchedulingPolicyNames()) {
    if (known == name) return std::nullopt;
    names.append(names.empty() ? "" : " or ").append(known);
  }
  return Refuse("scheduling_name", name, names);
}

std::optional<std::string> CheckMachine(const RuntimeOptions& options) {
  std::string why;
  std::optional<numa::Topology> topology;
  if (!options.topology.empty()) {
    topology = numa::Topology::FromString(options.topology, &why);
    if (!topology.has_value()) {
      return Refuse("topology", options.topology,
                    "empty, an hwloc synthetic string or an hwloc XML file (" + why + ")");
    }
  }
  if (options.worker_accessible_cpus.empty()) return std::nullopt;
  const std::optional<std::vector<int>> cpus = numa::ParseCpuList(options.worker_accessible_cpus, &why);
  if (!cpus.has_value()) {
    return Refuse("worker_accessible_cpus", options.worker_accessible_cpus,
                  "a list of CPUs as in 0-4,6,7 (" + why + ")");
  }
  if (!topology.has_value()) topology = numa::Topology::Detect();
  if (!topology->Restrict(*cpus, &why).has_value()) {
    return Refuse("worker_accessible_cpus", options.worker_accessible_cpus,
                  "CPUs that this process may use (" + why + ")");
  }
  return std::nullopt;
}

std::optional<std::string> CheckTimeouts(const RuntimeOptions& options) {
  if (auto error = CheckRange("start_timeout_ms", options.start_timeout.count(), 0, kMaxTimeoutMs)) return error;
  return CheckRange("terminate_timeout_ms", options.terminate_timeout.count(), 0, kMaxTimeoutMs);
}

std::optional<std::string> CheckLimits(const RuntimeOptions& options) {
  if (auto error = CheckRange("limit_ready_wait_ms", options.limit_ready_wait.count(), 0, kMaxReadyWaitMs, "0: off")) {
    return error;
  }
  return CheckRange("limit_fibers", options.limit_fibers, 0, kMaxFibers, "0: off");
}

std::optional<std::string> CheckSlices(const RuntimeOptions& options) {
  if (auto error = CheckRange("slice_warning_ms", options.slice_warning.count(), 0, kMaxTimeoutMs, "0: off")) {
    return error;
  }
  if (auto error = CheckRange("stall_warning_ms", options.stall_warning.count(), 0, kMaxTimeoutMs, "0: off")) {
    return error;
  }
  return CheckRange("slice_error_ms", options.slice_error.count(), 0, kMaxTimeoutMs, "0: off");
}

std::optional<std::string> CheckDumps(const RuntimeOptions& options) {
  if (options.dump_signal.empty() || fiber::detail::ParseDumpSignal(options.dump_signal).has_value()) {
    return std::nullopt;
  }
  return Refuse("dump_signal", options.dump_signal, "empty or a signal that can be handled, as in USR2");
}

}  // namespace

std::optional<std::string> ValidateOptions(const RuntimeOptions& options) {
  using Check = std::optional<std::string> (*)(const RuntimeOptions&);
  const Check checks[] = {
      CheckWorkers,
      CheckGroups,
      CheckStealing,
      CheckSizes,
      CheckBlocking,
      CheckTimeouts,
      CheckLimits,
      CheckSlices,
      CheckDumps,
      CheckMachine,
      [](const RuntimeOptions& o) { return CheckSchedulingName(o.scheduling_name); },
  };
  for (const Check check : checks) {
    if (std::optional<std::string> error = check(options)) return error;
  }
  return std::nullopt;
}

std::optional<NumaAware> ParseNumaAware(const std::string& text) {
  if (text == "auto") return NumaAware::kAuto;
  if (text == "on") return NumaAware::kOn;
  if (text == "off") return NumaAware::kOff;
  return std::nullopt;
}

}  // namespace weft
