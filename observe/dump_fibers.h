// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpFibers(): what every fiber of the process does, and where.
// Sample:
//   weft::DumpFibers(std::cerr);
//   weft::DumpFibers(file, {.format = weft::DumpOptions::Format::kJson});
//   weft::DumpFibers(std::cerr, {.filter = "state=parked,reason=mutex|join,age=5s"});
//
//     weft: 100002 fibers: 100001 parked, 0 ready, 0 new, 1 running
//
//     100000 fibers, parked: channel_get 0x7f0c5c0012a0, for 3.2 s to 3.4 s, in group 0
//       'worker' (id 17), 'worker' (id 18) ... and 99998 more
//       0x55d0c8a1b2c3 weft::FiberChannel<Job>::Get() (channel.h:231)
//       ...
//
// For each fiber: id, name, scheduling group, as "1" or "1 (batch)"; state; if it is parked, what it waits for, its
// address (of a descriptor the number), for how long, who owns it (a mutex, the fiber that is joined), the deadline of
// the wait; whether it has been cancelled; its stack. Fibers of the same state, reason and stack are shown together.
//
//   state    new: it has not run yet. ready: it waits for a worker. running: on a worker, or about to leave it. parked
//   age      from a coarse clock: 0.1 s too long at most, if the machine gives the Watchdog its CPU
//   owner    of a FiberMutex and a FiberSharedMutex's writer. FiberTimedMutex has none
//   stack    of a ready one that yields again and again it may be of two moments. One that runs is asked for it by a
//            signal, SIGURG: where its thread has no CPU, blocks the signal or is deep in the kernel for 0.1 s, it is
//            shown without
//   cycles   without a filter, at the end: fibers that wait for each other in a circle (wait_cycles.h), and workers
//            that wait for a std::mutex which they have locked themselves, for a fiber that has suspended (JSON: as
//            remarks)
//   timers   without a filter, at the end: how many with callbacks are set, by the type of the callback
//   missing  creators, CPU time: Weft does not keep them
//
// Frames have names where the program's files have symbols, and lines where they have debug information; the library
// for that is libdw.so.1 (Debian: libdw1). Without it there are no frames, and the dump says so.
//
// Who may call: any fiber and any thread, at any time: before StartRuntime(), while it starts and ends, after its end,
// in a forked child (which has the fibers of its parent, and none of them runs). Several at once are several dumps. Not
// in a signal handler: it allocates. A fiber switches: a thread of its own makes the dump.
// It is no picture of one instant: each fiber is shown as it was at some time during the call
// (observe/dump/fiber_reader.h). No fiber or worker is stopped, save for the handler of SIGURG, some 20 us. That may
// interrupt a system call of a fiber that runs. Most go on by themselves; sleep(), nanosleep(), poll(), epoll_wait()
// and reads of sockets with a time-out fail with EINTR (signal(7)). Where the program does not bear that:
// DumpOptions::running_stacks. A program that handles SIGURG itself keeps it.
// Cost: some 10 ms, and 2 to 5 us for each fiber.
#ifndef WEFT_OBSERVE_DUMP_FIBERS_H_
#define WEFT_OBSERVE_DUMP_FIBERS_H_

#include <iosfwd>

#include "weft/observe/dump_options.h"

namespace weft {

// False: the filter is not understood, or there is no memory; one line on `out` says so.
bool DumpFibers(std::ostream& out, const DumpOptions& options = {});

}  // namespace weft

#endif  // WEFT_OBSERVE_DUMP_FIBERS_H_
