// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// YieldHooks: what fibers want to have called before they are switched away from (fiber/fiber_hooks.h).
//
// The places where a fiber decides to leave its worker (park.cc, and a yield in worker.cc) ask AnyYieldHooks(): that is
// a load of a word that nobody writes, and a branch, two instructions of some 260 to 380 of a switch
// (bench/count/count.py), as long as no fiber has such a hook; Worker::SwitchTo() knows nothing of it. Only while some
// fiber has one are others asked whether they do.
//
// Rejected: a flag in the entity (line 0 has no room), in the state word (each transition would have to mask it), a
// test in SwitchTo() (it is also how fibers are entered and left for good).
#ifndef WEFT_SCHEDULING_GROUP_YIELD_HOOKS_H_
#define WEFT_SCHEDULING_GROUP_YIELD_HOOKS_H_

#include <atomic>
#include <cstdint>

#include "weft/base/cpu.h"

namespace weft::scheduling_group {

class FiberEntity;

// Fibers that have hooks. relaxed: a fiber sees what it has added itself; that others have some is no matter.
inline constinit std::atomic<std::uint32_t> fibers_with_yield_hooks{0};

// Calls those of the fiber, if it has any. Set before the first is counted.
using YieldHookRunner = void (*)(FiberEntity* self);
inline constinit std::atomic<YieldHookRunner> yield_hook_runner{nullptr};

void RunYieldHooksOf(FiberEntity* self);

// Some fiber has hooks, maybe the caller.
WEFT_ALWAYS_INLINE bool AnyYieldHooks() noexcept {
  return WEFT_UNLIKELY(fibers_with_yield_hooks.load(std::memory_order_relaxed) != 0);
}

// The fiber that is about to leave its worker. Does not switch.
WEFT_ALWAYS_INLINE void RunYieldHooks(FiberEntity* self) {
  if (AnyYieldHooks()) RunYieldHooksOf(self);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_YIELD_HOOKS_H_
