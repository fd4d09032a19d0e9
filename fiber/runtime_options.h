// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RuntimeOptions: the options of a runtime, and the check that refuses impossible ones.
//
// Each field has a gflag of its name with `fiber_` before it, and `_ms` after it if it is a time (runtime_flags.h). A
// program may fill its own. ValidateOptions is pure: tests of it need no process that dies.
//
// Invariants
//   RO1  Options for which ValidateOptions returns nothing can be started, unless the machine refuses.
//   RO2  A refusal is one line: flag, value found, values allowed.
//
// Numbers are signed so that `--fiber_concurrency_hint=-1` is refused as -1 and not as 18446744073709551615.
#ifndef WEFT_FIBER_RUNTIME_OPTIONS_H_
#define WEFT_FIBER_RUNTIME_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "weft/base/time/clock.h"

namespace weft {

// What --fiber_numa_aware may be.  "auto" uses as few nodes as the workers need, "on" all nodes, and in both no group
// spans two; "off" takes the machine for one node (scheduling_group/plan/group_plan.h).
enum class NumaAware { kAuto, kOn, kOff };

// How much the flight recorder writes down (observe/flight_recorder.h): nothing; a sample of what happens; each switch.
enum class RecorderLevel : std::uint8_t { kOff, kSampled, kFull };

struct RuntimeOptions {
  // A value of cross_numa_work_stealing_ratio, its default.
  static constexpr std::int64_t kStealByDistance = -1;

  // Workers wanted in all.  0: as many as there are CPUs this process may use, cut by the cgroup's CPU quota; or those
  // of `groups`.
  std::int64_t concurrency_hint = 0;

  // Groups by name, each with its number of workers: "latency:6,batch:2". They do not steal from each other, so work of
  // one does not delay work of another. What plain threads start goes to the first name; what fibers start stays under
  // theirs; SchedulingGroupNamed() (runtime.h) leads to the others. "batch:2@6,7" gives CPUs, "batch:2:shares=latency"
  // lets the two steal from each other (docs/how-to/isolate-work.md). Empty: no names, and concurrency_hint counts.
  std::string groups;

  // At most so many workers per scheduling group.  0: planned from the machine, 8 to 15 each (fewer on a small one).
  std::int64_t scheduling_group_size = 0;

  // How groups keep to NUMA nodes.
  NumaAware numa_aware = NumaAware::kAuto;

  // CPUs that workers may use, as "0-4,6,7".  Empty: all that the process may use.
  std::string worker_accessible_cpus;

  // true: a worker is bound to its planned CPU.  false: to the CPUs of its group.
  bool worker_disallow_cpu_migration = false;

  // The scheduling policy: one of those registered; built in are "v1" (one queue per group) and "v2" (local queues).
  std::string scheduling_name = "v1";

  // An idle worker tries to steal from each other group of its node on every N-th search, before it sleeps, and
  // whenever a group whose workers are all busy requests it. 0: never.
  std::int64_t work_stealing_ratio = 16;

  // The same for groups of other nodes. 0: never. By distance: between nodes of a socket, more seldom the farther they
  // are (N is 19 at distance 12, where it is 16 in a node), and never between sockets.
  std::int64_t cross_numa_work_stealing_ratio = kStealByDistance;

  // Slots of each of a group's two rings of ready fibers (woken ones, and all others), 16 bytes each; a power of two.
  // What does not fit goes to an overflow list.
  std::int64_t run_queue_size = 131072;

  // Bytes of a fiber's stack, rounded up to whole pages.
  std::int64_t stack_size = 131072;

  // Whether a guard lies below each stack: a fiber that runs onto it ends the process, with a message that names it.
  bool stack_enable_guard_page = true;

  // Bytes of that guard, rounded up to whole pages. A larger frame can jump over it without -fstack-clash-protection.
  std::int64_t stack_guard_size = 65536;

  // Free stacks a group keeps warm; beyond that their memory goes back to the system when things have gone quiet.
  std::int64_t stack_pool_size = 1024;

  // To learn how large stack_size must be: how much is used is looked at for each N-th stack that a worker takes from
  // the pool (GroupCounts::stack_high_water). That writes and reads the whole stack, some 20 us for 128 KiB. 0: never.
  std::int64_t record_stack_every = 0;

  // Threads that run FiberBlocking() calls, at most: so many run at once (io/fiber_blocking.h). Made when needed.
  std::int64_t blocking_threads = 64;

  // Blocking calls that wait for a thread, at most; further callers wait for room.
  std::int64_t blocking_queue_size = 1024;

  // How long such a thread has nothing to do before it ends.
  std::chrono::milliseconds blocking_idle_timeout{60'000};

  // The machine to plan for. Empty: this one. Else an hwloc synthetic string ("numa:2 core:8 pu:1") or an XML file.
  std::string topology;

  // How long a plain thread that starts a fiber waits for room when too many are queued, before it gets `false`.
  std::chrono::milliseconds start_timeout{2000};

  // How long TerminateRuntime() waits for fibers to end, before it reports those that are left and stops without them;
  // threads that do not come back then have a second more.
  std::chrono::milliseconds terminate_timeout{5000};

  // The limits of fiber_limiter.h. How long ready fibers may wait for a worker before new work is refused; 0: no limit.
  std::chrono::milliseconds limit_ready_wait{0};

  // How many fibers may be alive before new work is refused; 0: no limit.
  std::int64_t limit_fibers = 0;

  // How long a scheduling group may stand still before the log says so, with what its workers do: fibers are ready, and
  // no worker takes one, because all are blocked or compute. The same for its timers that should have fired, and while
  // all workers of another group sleep that might help it; for five times as long, of fibers that wait though workers
  // take others. Again each time that it has lasted twice as long. 0: off, and so are stacks (docs/diagnosing.md).
  std::chrono::milliseconds stall_warning{1000};

  // How long a fiber may run without suspending before the log says so, at most once a second; 0: as long as it likes.
  // Fibers that loop over operations of Weft's yield after some 30 ms, unless nobody else is ready (slice_limits.h).
  std::chrono::milliseconds slice_warning{0};

  // The same, for a line of severity ERROR, once for each such run, and for the hook of slice_limits.h; 0: none.
  std::chrono::milliseconds slice_error{0};

  // A signal, "USR2", at which the process writes what all its fibers do to stderr (observe/dump_on_signal.h). Nobody
  // else may use it. Empty: none.
  std::string dump_signal;

  // The same when the process dies of a failed check, an uncaught exception, abort() or a fault that nobody handles: it
  // takes 2 s at most (docs/diagnosing.md). Nothing happens in programs without weft::observe.
  bool dump_on_crash = true;

  // What the flight recorder (observe/flight_recorder.h) writes down from the start.
  RecorderLevel recorder = RecorderLevel::kSampled;

  bool operator==(const RuntimeOptions&) const = default;
};

// Nothing if `options` can be used, else one line that names flag, value and what is allowed.  Any thread.
[[nodiscard]] std::optional<std::string> ValidateOptions(const RuntimeOptions& options);

// "auto", "on" or "off" to the enumerator; nothing for other text.  Any thread.
[[nodiscard]] std::optional<NumaAware> ParseNumaAware(const std::string& text);

namespace fiber {  // docs/from_trpc.md
using weft::NumaAware;
using weft::ParseNumaAware;
using weft::ValidateOptions;
// The name of RuntimeOptions in tRPC-Cpp's style.
using Options = RuntimeOptions;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_RUNTIME_OPTIONS_H_
