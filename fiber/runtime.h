// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The runtime: the scheduling groups with their workers and timers, from StartRuntime() to TerminateRuntime(). A
// process has one at a time; after its end another one can be started, with other options, any number of times.
// Sample:
//   int main(int argc, char** argv) {
//     gflags::ParseCommandLineFlags(&argc, &argv, true);
//     weft::StartRuntime();
//     weft::Fiber([] { Serve(); }).Join();
//     weft::TerminateRuntime();
//   }
//
// exit() and the return from main() need no TerminateRuntime(): fibers and threads go on until the process ends.
//
// fork() and daemon() copy only the calling thread, so the child has no workers. Fork before StartRuntime(), or call
// exec() or _exit() in the child, at any time, even in fibers (exit(), too, as far as your own program allows it). In a
// child forked while the runtime ran, starting a fiber or timer, Join() and StartRuntime() end the process with a line
// that says so; queries return 0; TerminateRuntime() writes the line and returns 0.
//
// runtime_instance.h says what happens at the end, in which order, and what becomes of fibers that do not end.
#ifndef WEFT_FIBER_RUNTIME_H_
#define WEFT_FIBER_RUNTIME_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fiber/runtime_options.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/group/counters.h"

namespace weft {

// Plain threads only. Starts the runtime as the flags say (runtime_flags.h), or as `options` say. A value that cannot
// be aborts the process with one line that names it, as does a second start. Flags that cannot be, alone or together on
// this machine, and flag files with lines that are no flags (CheckFlagFiles() in runtime_flags.h) end the process by
// exit(2) after a line on stderr.
void StartRuntime();
void StartRuntime(const RuntimeOptions& options);

// The same, but what goes wrong is returned: false, with one line in `*error`, and nothing has changed. That is:
// options that cannot be, a runtime that runs already, a system that gives no thread or no memory.
[[nodiscard]] bool TryStartRuntime(const RuntimeOptions& options, std::string* error);

// Waits for the fibers to end, up to RuntimeOptions::terminate_timeout, and stops the workers. Returns how many fibers
// have not finished; each is logged with its name and id and what it was doing. 0 is the regular end. Unfinished fibers
// never run again; their stacks and their groups stay in memory. A wait without a deadline for the end of one ends the
// process (docs/pitfalls.md, "`exit` and the end of `main`").
//
// A fiber that blocks its worker's thread (in read(2), or a loop) has a second more. Then it is logged with its worker,
// and left behind with the thread, which ends when the fiber suspends or returns. Until then it starts no fibers, and
// what runtimes free at their end stays in memory. So is a timer's callback that blocks the timer thread.
//
// From its beginning until the next StartRuntime() has returned, plain threads start no fibers or timers
// (StartFiberDetached returns false, SetFiberTimer 0); fibers may go on starting fibers until the time is up and the
// workers are told to stop. From then on they are refused, too, and one that would get an exception for it (it makes a
// Fiber or a task, say) never runs again. Timers do not fire any more, and their callbacks are destroyed; sleeps and
// timed waits of fibers do end in time.
// It waits, without a limit (though the time counts towards terminate_timeout), for threads in the middle of a start:
// until they have moved or copied their callables into the fibers and handed these over, or destroyed them as refused.
// So a callable's constructors and destructor may not call it, nor wait for what its caller does only afterwards, such
// as to unlock a mutex.
// Plain threads only; aborts without a runtime and from inside a fiber.
std::size_t TerminateRuntime();

// Whether there is one. Any thread.
bool IsRuntimeRunning() noexcept;

// Lets the calling thread run wherever the process's first thread may. For a thread that a fiber has started, or a
// library in its name: it has inherited the CPUs of the fiber's worker. (In a process that a fiber forks this happens
// by itself; one that it starts by posix_spawn() inherits them.) Ends the process if a fiber calls it.
void UnbindThread();

// The calls below: any thread and any fiber, at any time. Before the first runtime they abort and name themselves;
// when one has ended they answer 0 (no groups, no counts, no node), until the next one runs.

// How many groups there are; their indices go from 0.
std::size_t GetSchedulingGroupCount();

// What the scheduler of a group has counted, in all, of each worker, and for each neighbour that it steals from;
// scheduling_group/group/counters.h describes the fields.
using GroupCounts = scheduling_group::GroupCounts;
using WorkerCounts = scheduling_group::WorkerCounts;
using StealCounts = scheduling_group::StealCounts;
using TimerCounts = scheduling_group::TimerCounts;
// A distribution of times (scheduling_group/watch/wait_samples.h).
using WaitHistogram = scheduling_group::WaitHistogram;

// The counts of each group since the runtime was started. A snapshot.
std::vector<GroupCounts> GetSchedulingCounts();

// Workers in each group (in the largest, where the last ones are smaller).
std::size_t GetSchedulingGroupSize();

// Workers in all.
std::size_t GetConcurrencyHint();

// The group whose worker the caller runs on; aborts in a plain thread.
std::size_t GetCurrentSchedulingGroupIndex();

// For FiberAttributes::scheduling_group: the groups of this name (--fiber_groups). The fiber starts in the caller's own
// group if it has the name, else in one of them after the other. The result is no index, and good until the runtime
// ends. Aborts if groups have names, but none has this. If none has a name it warns, once for each runtime, and the
// fiber starts as if nothing had been said.
// Sample:
//   bool started = StartFiberDetached({.scheduling_group = SchedulingGroupNamed("batch")}, [] { RebuildIndex(); });
std::size_t SchedulingGroupNamed(std::string_view name);

// The name of a group (--fiber_groups); "" if it has none, as that of a FiberLoop.
std::string GetSchedulingGroupName(std::size_t scheduling_group);

// The kernel's number of the NUMA node that the group is on, -1 if it is on none in particular.
int GetSchedulingGroupAssignedNode(std::size_t scheduling_group);

namespace fiber {  // docs/from_trpc.md
using weft::GetConcurrencyHint;
using weft::GetCurrentSchedulingGroupIndex;
using weft::GetFiberQueueSize;
using weft::GetSchedulingCounts;
using weft::GetSchedulingGroupAssignedNode;
using weft::GetSchedulingGroupCount;
using weft::GetSchedulingGroupSize;
using weft::GroupCounts;
using weft::IsRuntimeRunning;
using weft::StartRuntime;
using weft::TerminateRuntime;
using weft::TryStartRuntime;
using weft::UnbindThread;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_RUNTIME_H_
