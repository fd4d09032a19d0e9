// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Park: the only door through which the layers above stop, wake and yield fibers.
//
//   waiting fiber                          its waker
//   -------------                          ---------
//   PrepareToPark(self)
//   make self known (a wait queue)         takes the fiber out: it alone may wake it (FS2)
//   ParkPrepared(self)                     Unpark(fiber)
//
// The waker may come at any moment after the fiber is known: before ParkPrepared (which then returns at once), while
// the fiber switches away (its worker makes it ready when the stack is left), or long after.
//
// A fiber whom one waker at most will wake, and nothing else, can do with less (two read-modify-writes less): it leaves
// its stack first, and is then made known, by the worker.
//
//   ParkAndPublish(self, publish, ..)      takes the fiber out by an acquire
//                                          UnparkPublished(fiber)
//
// Memory ordering: what the waker did before Unpark() is visible to the fiber after ParkPrepared().
// Lifetime: after Unpark() the fiber may run, end, and whatever stood on its stack may be gone.
// A fiber may come back on another thread from ParkPrepared() and YieldCurrentFiber().
#ifndef WEFT_SCHEDULING_GROUP_PARK_H_
#define WEFT_SCHEDULING_GROUP_PARK_H_

#include <cstddef>

#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::scheduling_group {

// The fiber itself: whether its stack is being unwound by an exception.
inline bool IsUnwinding() noexcept { return context::UncaughtExceptions(*CurrentWorker()) != 0; }

// The fiber itself. Does not switch.
inline void PrepareToPark(FiberEntity* self) noexcept { self->state().OnParking(); }

// The fiber itself, after PrepareToPark(). Switches, unless it has been woken already.
void ParkPrepared(FiberEntity* self) noexcept;

// The fiber itself, not prepared. Switches; then, on another stack, `publish` makes it known, by a release after which
// it touches nothing of it, and says true; or says false, and the fiber is made ready again. publish neither blocks nor
// switches.
void ParkAndPublish(FiberEntity* self, bool (*publish)(void* argument) noexcept, void* argument) noexcept;

// Any thread; exactly once per park. Never blocks, never fails, never switches.
void Unpark(FiberEntity* fiber) noexcept;

// The same for one that was made known by ParkAndPublish().
void UnparkPublished(FiberEntity* fiber) noexcept;

// As Unpark() for several fibers at once, with one wake-up pass.
void UnparkRemote(FiberEntity* const* fibers, std::size_t count) noexcept;

// A fiber. Others that are ready run first; returns at once if there are none.
void YieldCurrentFiber() noexcept;

// A fiber. `fiber` (new, of the caller's group) runs at once on this worker; the caller is queued behind those that are
// ready.
void RunInsteadOfCurrent(FiberEntity* fiber) noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PARK_H_
