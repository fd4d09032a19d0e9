// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks of the calling fiber: functions that run when it ends, and before each switch away from it.
// Sample:
//   OnFiberStop([&] { connection->Forget(); });           // clean-up that belongs to the fiber, not to a scope
//   OnFiberYield([&] { ++transaction.interruptions; });    // others may run now
//
// OnFiberStop: the hook runs on the fiber's own stack when its function has returned, and before Join() returns. Hooks
// and FiberLocals end in the reverse order of their making: a hook sees the FiberLocals that were there when it was
// set. It may lock, wait, sleep, set further hooks (which run next). A fiber that the runtime's end leaves unfinished
// runs none.
//
// OnFiberYield: the hooks run, in the order of setting, on the fiber's own stack, when it is about to wait, or yields
// (by itself, or at the end of its time slice), even if nobody else is ready; not before a wait that need not wait.
// Calling into the main context of a FiberLoop, and starting a task eagerly, count, too. A hook that waits, yields,
// finds a lock taken or sets another hook of this kind ends the process. Hooks go with the fiber.
//
// An exception that leaves a hook ends the process, as does a caller that is no fiber. Neither function switches.
// Cost: none without hooks. While any fiber has one for yields (even one left unfinished), each switch of each fiber
// makes a call to look for hooks.
#ifndef WEFT_FIBER_FIBER_HOOKS_H_
#define WEFT_FIBER_FIBER_HOOKS_H_

#include "weft/base/unique_function.h"

namespace weft {

void OnFiberStop(base::UniqueFunction<void()> hook);

void OnFiberYield(base::UniqueFunction<void()> hook);

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_HOOKS_H_
