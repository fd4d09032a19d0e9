// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_flags.h"

#include <gflags/gflags.h>

#include <chrono>

#include "weft/fiber/runtime/flag_help.h"

DEFINE_int64(fiber_concurrency_hint, 0,
             "Workers in all; 0 = one per CPU this process may use, cut by the cgroup's CPU quota."
             " In 0..4096.");
DEFINE_int64(fiber_scheduling_group_size, 0,
             "At most so many workers per scheduling group, up to 64; 0 = planned from the machine, 8 to 15."
             " In 0..64.");
DEFINE_string(
    fiber_numa_aware, "auto",
    "No scheduling group spans NUMA nodes: auto = as few nodes as needed, on = all nodes; off = nodes do not count.");
DEFINE_string(fiber_worker_accessible_cpus, "",
              "CPUs that workers may use, as in 0-4,6,7; empty = all the process may use.");
DEFINE_bool(fiber_worker_disallow_cpu_migration, false,
            "Bind each worker to its planned CPU instead of its group's CPUs.");
DEFINE_string(
    fiber_scheduling_name, "v1",
    "The scheduling policy: v1 = one queue per group, fair, shortest delay; v2 = a queue per worker, for computation.");
DEFINE_int64(fiber_work_stealing_ratio, 16,
             "An idle worker tries to steal from another group of its NUMA node on every N-th search, before it "
             "sleeps, and when one whose workers are all busy requests it; 0 = never."
             " In 0..1000000.");
DEFINE_int64(fiber_cross_numa_work_stealing_ratio, 0,
             "The same for groups of other NUMA nodes; 0 = never."
             " In 0..1000000.");
DEFINE_int64(fiber_run_queue_size, 131072,
             "Slots in each of a group's two rings of ready fibers (woken ones, and all others); a power of two."
             " In 16..16777216.");
DEFINE_int64(fiber_stack_size, 131072,
             "Bytes of a fiber's stack, rounded up to whole pages."
             " In 16384..1073741824.");
DEFINE_bool(fiber_stack_enable_guard_page, true, "Put a guard below each fiber's stack.");
DEFINE_int64(fiber_stack_guard_size, 65536,
             "Bytes of that guard at least: larger frames can jump over it."
             " In 4096..16777216.");
DEFINE_int64(fiber_stack_pool_size, 1024,
             "Free stacks a group keeps warm when things have gone quiet."
             " In 0..67108864.");
DEFINE_int64(fiber_record_stack_every, 0,
             "Look how much is used of each N-th stack that is taken from the pool; 0 = never."
             " In 0..1000000.");
DEFINE_int64(fiber_blocking_threads, 64,
             "Threads that run FiberBlocking calls, at most; made when needed."
             " In 1..4096.");
DEFINE_int64(fiber_blocking_queue_size, 1024,
             "FiberBlocking calls that wait for a thread, at most; further callers wait for room."
             " In 1..16777216.");
DEFINE_int64(fiber_blocking_idle_timeout_ms, 60000,
             "How long a thread for FiberBlocking calls has nothing to do before it ends."
             " In ms, 0..86400000.");
DEFINE_string(fiber_topology, "",
              "The machine to plan for: empty = this one, else an hwloc synthetic string or an XML file.");
DEFINE_int64(fiber_start_timeout_ms, 2000,
             "How long a plain thread that starts a fiber waits for room when too many are queued."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_terminate_timeout_ms, 5000,
             "How long TerminateRuntime waits for fibers to end."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_limit_ready_wait_ms, 0,
             "Refuse new work that asks (fiber_limiter.h) while ready fibers keep waiting longer for a worker; 0 = off."
             " In ms, 0..60000.");
DEFINE_int64(fiber_limit_fibers, 0,
             "Refuse new work that asks while more fibers are alive; 0 = off."
             " In 0..1000000000.");
DEFINE_int64(fiber_slice_warning_ms, 0,
             "Warn, at most once a second, of a fiber that runs longer than this without suspending; 0 = off."
             " In ms, 0..86400000.");
DEFINE_int64(fiber_slice_error_ms, 0,
             "Log an error, once each time, when a fiber runs longer than this without suspending; 0 = off."
             " In ms, 0..86400000.");

namespace weft::fiber {

namespace {

// Static constructors of other files may run before those of the flags above.
constinit bool flags_are_defined = false;
struct FlagsAreDefined {
  FlagsAreDefined() {
    flags_are_defined = true;
    detail::InstallFlagHelp();
  }
};
[[maybe_unused]] const FlagsAreDefined after_the_flags;

}  // namespace

void ParseFlags(int* argc, char*** argv) { gflags::ParseCommandLineFlags(argc, argv, /*remove_flags=*/true); }

std::optional<std::string> ReadFlags(Options* options) {
  if (!flags_are_defined) {
    return "the flags are not defined yet, in a static constructor that runs before theirs: StartRuntime() belongs in "
           "main(), or takes Options";
  }
  const std::optional<NumaAware> numa_aware = ParseNumaAware(FLAGS_fiber_numa_aware);
  if (!numa_aware.has_value()) {
    return "--fiber_numa_aware=" + FLAGS_fiber_numa_aware + ": must be auto, on or off";
  }
  options->concurrency_hint = FLAGS_fiber_concurrency_hint;
  options->scheduling_group_size = FLAGS_fiber_scheduling_group_size;
  options->numa_aware = *numa_aware;
  options->worker_accessible_cpus = FLAGS_fiber_worker_accessible_cpus;
  options->worker_disallow_cpu_migration = FLAGS_fiber_worker_disallow_cpu_migration;
  options->scheduling_name = FLAGS_fiber_scheduling_name;
  options->work_stealing_ratio = FLAGS_fiber_work_stealing_ratio;
  options->cross_numa_work_stealing_ratio = FLAGS_fiber_cross_numa_work_stealing_ratio;
  options->run_queue_size = FLAGS_fiber_run_queue_size;
  options->stack_size = FLAGS_fiber_stack_size;
  options->stack_enable_guard_page = FLAGS_fiber_stack_enable_guard_page;
  options->stack_guard_size = FLAGS_fiber_stack_guard_size;
  options->stack_pool_size = FLAGS_fiber_stack_pool_size;
  options->record_stack_every = FLAGS_fiber_record_stack_every;
  options->blocking_threads = FLAGS_fiber_blocking_threads;
  options->blocking_queue_size = FLAGS_fiber_blocking_queue_size;
  options->blocking_idle_timeout = std::chrono::milliseconds(FLAGS_fiber_blocking_idle_timeout_ms);
  options->topology = FLAGS_fiber_topology;
  options->start_timeout = std::chrono::milliseconds(FLAGS_fiber_start_timeout_ms);
  options->terminate_timeout = std::chrono::milliseconds(FLAGS_fiber_terminate_timeout_ms);
  options->limit_ready_wait = std::chrono::milliseconds(FLAGS_fiber_limit_ready_wait_ms);
  options->limit_fibers = FLAGS_fiber_limit_fibers;
  options->slice_warning = std::chrono::milliseconds(FLAGS_fiber_slice_warning_ms);
  options->slice_error = std::chrono::milliseconds(FLAGS_fiber_slice_error_ms);
  return std::nullopt;
}

}  // namespace weft::fiber
