// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks of the calling fiber: functions that run when it ends, and before each switch away from it.
// Sample:
//   OnFiberStop([&] { connection->Forget(); });           // clean-up that belongs to the fiber, not to a scope
//   OnFiberYield([&] { ++transaction.interruptions; });    // others may run now
//
// OnFiberStop: the hook runs on the fiber's own stack, when its function has returned. Hooks and FiberLocals end in the
// reverse order of their making: a hook sees the FiberLocals that were there when it was set. It may do all that a
// fiber may: lock, wait, sleep, set further hooks (which run next). Join() returns after it. A fiber that is left
// behind unfinished when the runtime ends never runs its hooks.
//
// OnFiberYield: the hooks run, in the order of setting, when the fiber is about to wait, or yields (by itself, or at
// the end of its time slice), on its own stack; also if it turns out that nobody else is ready. Calling into the main
// context of a FiberLoop, or starting a task eagerly, is leaving, too. The fiber is half on its way: a hook may not
// wait, yield, take a lock that others hold, or set another hook of this kind; that ends the process, or (where it
// happens to find the lock free) does not show. Not before a wait that need not wait. Hooks go with the fiber.
//
// An exception that leaves a hook ends the process. Both: a fiber; others end the process. Neither switches.
// Cost: none, neither at the end nor at a switch, where no fiber has a hook. While some fiber has one for yields, each
// switch of any fiber makes a call to look for it; also after a runtime that has left such a fiber behind unfinished.
#ifndef WEFT_FIBER_FIBER_HOOKS_H_
#define WEFT_FIBER_FIBER_HOOKS_H_

#include "weft/base/unique_function.h"

namespace weft {

void OnFiberStop(base::UniqueFunction<void()> hook);

void OnFiberYield(base::UniqueFunction<void()> hook);

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_HOOKS_H_
