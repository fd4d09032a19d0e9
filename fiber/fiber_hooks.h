// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks of the calling fiber: functions that run when it ends, or before each switch away from it.
// Sample:
//   OnFiberStop([&] { connection->Forget(); });           // clean-up that belongs to the fiber, not to a scope
//   OnFiberYield([&] { ++transaction.interruptions; });    // others may run now
//
// A hook runs on the fiber's own stack. It ends the process if an exception leaves it, and so does a caller that is no
// fiber. Setting a hook does not switch. Without hooks they cost nothing; while any fiber has a hook for yields (even a
// fiber left unfinished), each switch of each fiber makes a call to look for hooks.
#ifndef WEFT_FIBER_FIBER_HOOKS_H_
#define WEFT_FIBER_FIBER_HOOKS_H_

#include "weft/base/unique_function.h"

namespace weft {

// Runs when the fiber's function has returned, before Join() returns. Hooks and FiberLocals end in the reverse order of
// their making, so a hook sees the FiberLocals that were there when it was set. It may lock, wait, sleep, and set
// further hooks, which run next. A fiber that the runtime's end leaves unfinished runs none.
void OnFiberStop(base::UniqueFunction<void()> hook);

// Runs whenever the fiber is about to wait, or yields (by itself, or at the end of its time slice), even if nobody else
// is ready; not before a wait that need not wait. A call into the main context of a FiberLoop, and the eager start of a
// task, count, too. Several hooks run in the order in which they were set. A hook that waits, yields, finds a lock
// taken or sets another hook of this kind ends the process.
void OnFiberYield(base::UniqueFunction<void()> hook);

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_HOOKS_H_
