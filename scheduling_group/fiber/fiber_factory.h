// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// NewFiber, DiscardFiber: make a fiber's control block with its options and callable, and unmake one that was never
// started. (The end of a fiber that ran: worker.cc.)
#ifndef WEFT_SCHEDULING_GROUP_FIBER_FIBER_FACTORY_H_
#define WEFT_SCHEDULING_GROUP_FIBER_FIBER_FACTORY_H_

#include <utility>

#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

// Any thread. nullptr: the table of entities is full (tens of millions of fibers alive) or memory is exhausted.
FiberEntity* AllocateFiber(SchedulingGroup* group, const StartOptions& options);

// Any thread. A fiber that was created and not started: its callable is destroyed, on_exit is not called.
void DiscardFiber(FiberEntity* fiber) noexcept;
// The same for one without a callable yet; the reference to its execution context stays the caller's.
void AbandonFiber(FiberEntity* fiber) noexcept;

// Any thread. A new fiber, kReady, for SchedulingGroup::Start and the like, or for DiscardFiber. nullptr: as
// AllocateFiber(), or no memory for a callable that does not fit into the entity; `f` is then untouched. Throws what
// copying or moving `f` throws. In both cases nothing is left, and the execution context's reference is the caller's.
template <class F>
FiberEntity* NewFiber(SchedulingGroup* group, const StartOptions& options, F&& f) {
  struct Guard {  // No try: users may compile without exceptions.
    ~Guard() {
      if (fiber != nullptr) [[unlikely]] {
        AbandonFiber(fiber);
      }
    }
    FiberEntity* fiber;
  };
  Guard guard{AllocateFiber(group, options)};
  if (guard.fiber == nullptr || !guard.fiber->Emplace(std::forward<F>(f))) return nullptr;
  return std::exchange(guard.fiber, nullptr);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_FIBER_FACTORY_H_
