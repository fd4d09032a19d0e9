// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FindWaitCycles(): fibers that wait for each other in a circle, so that none of them goes on.
// Sample:
//   for (const weft::WaitCycle& cycle : weft::FindWaitCycles()) std::cerr << cycle.ToString();
//
//     weft: 3 fibers wait for each other in a cycle:
//       fiber 'a' (id 1): mutex 0x7ffc1a0, for 3.2 s, owned by fiber 'b' (id 2)
//       fiber 'b' (id 2): mutex 0x7ffc1b8, for 3.2 s, owned by fiber 'c' (id 3)
//       fiber 'c' (id 3): mutex 0x7ffc1d0, for 3.2 s, owned by fiber 'a' (id 1)
//     the stack of fiber 'a' (id 1):
//       0x55d0c8a1b2c3 weft::FiberMutex::LockSlow(...) (fiber_mutex.cc:75)
//       ...
//
// Found are cycles over FiberMutex, FiberSharedMutex (its writer), the end of fibers (Join() and Get() without a
// deadline, in fibers that can be joined themselves), and the end of scopes (FiberScope), in any mixture. A cycle of
// joins alone ends the process when it comes into being (fiber/fiber.h).
// Not found: cycles over what has no owner (FiberTimedMutex, events, condition variables, semaphores, channels,
// futures), over readers of a FiberSharedMutex, and over threads. AllFibersAreAsleep() in observe/deadlock.h sees some.
//
// What is found was so: all the fibers of a cycle waited at one instant, each for the next, although nobody is stopped
// (observe/waits/wait_graph.h). It lasts for ever unless somebody cancels a join, or may_end.
//
// Who may call: any fiber and any thread, at any time; not in a signal handler: it allocates. A fiber keeps its worker
// meanwhile, but for the stacks, which a thread of their own unwinds. Cost: 1 us for each fiber, 6 us for each that
// waits for a mutex, a fiber or a scope; and some 10 ms for the stacks, if there is a cycle.
#ifndef WEFT_OBSERVE_WAIT_CYCLES_H_
#define WEFT_OBSERVE_WAIT_CYCLES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// Fibers that wait for each other.
struct WaitCycle {
  // One of them.
  struct Member {
    std::uint64_t id = 0;                    // of the fiber
    std::string name;                        // "" if it has none
    std::string reason;                      // mutex, shared_mutex, join or scope: as in a dump (dump_fibers.h)
    std::uint64_t object = 0;                // the address of what it waits for
    std::chrono::milliseconds waits_for{0};  // about: 0.1 s too long at most
    std::vector<std::string> stack;          // a line for each frame, the innermost first; empty: unknown
    std::uint64_t park = 0;                  // differs from wait to wait of a fiber
  };

  // Each waits for the next one, the last one for the first.
  std::vector<Member> members;
  // It ends by itself: one of the waits has a deadline, or is that of a cancelled fiber.
  bool may_end = false;

  // Some lines, as above.
  std::string ToString() const;
};

// At most 32 cycles; one fiber that holds what others want may make many. stacks: with the stacks, if libdw.so.1 is
// there (dump_fibers.h).
std::vector<WaitCycle> FindWaitCycles(bool stacks = true);

}  // namespace weft

#endif  // WEFT_OBSERVE_WAIT_CYCLES_H_
