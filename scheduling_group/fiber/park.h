// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Park: how the layers above suspend, wake and yield fibers. There is no other way.
//
//   waiting fiber                          its waker
//   -------------                          ---------
//   PrepareToPark(self)
//   makes self known (a wait queue)        takes the fiber out: so it alone wakes it (FS2)
//   ParkPrepared(self)                     Unpark(fiber)
//
// What the waker did before Unpark() is visible to the fiber after ParkPrepared(). After Unpark() the fiber may run and
// end, and what lay on its stack may be gone. ParkPrepared() and YieldCurrentFiber() may return on another thread.
//
// The waker may come as soon as the fiber is known. Before ParkPrepared(): that then returns at once. While the fiber
// switches away: its worker makes it ready when it has left its stack. Or at any later time.
//
// Where only one waker can come, two read-modify-writes are saved: the fiber leaves its stack first, and its worker
// then makes it known.
//
//   ParkAndPublish(self, publish, ..)      takes the fiber out by an acquire
//                                          UnparkPublished(fiber)
#ifndef WEFT_SCHEDULING_GROUP_FIBER_PARK_H_
#define WEFT_SCHEDULING_GROUP_FIBER_PARK_H_

#include <cstddef>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

// The fiber itself: how many exceptions unwind its stack. More than one: in a destructor that the first one has called.
inline unsigned UnwindingDepth() noexcept { return context::UncaughtExceptions(*CurrentWorker()); }
inline bool IsUnwinding() noexcept { return UnwindingDepth() != 0; }

// The fiber itself. Does not switch.
inline void PrepareToPark(FiberEntity* self, WaitReason reason = {}) noexcept {
  self->set_wait_reason(reason);
  self->state().OnParking();
}

// Whoever has won the wake-up of a parked fiber, and makes it wait on for something else.
inline void SetWaitReason(FiberEntity* fiber, WaitReason reason) noexcept { fiber->set_wait_reason(reason); }

// The fiber itself, after PrepareToPark(). Switches, unless it has been woken already.
void ParkPrepared(FiberEntity* self) noexcept;

// The same, after a timer was set that the worker may keep (TimerWorker::ArmBeforePark()).
void ParkKeeping(FiberEntity* self) noexcept;

// The fiber itself, without PrepareToPark(). Switches, then calls `publish` on another stack. `publish` makes the fiber
// known by a release, touches nothing of it afterwards and returns true; or it returns false, and the fiber becomes
// ready again. `publish` neither blocks nor switches. The next fiber is the current one by then, and is taken for the
// waker of what `publish` wakes, except in a NoWaitSection.
void ParkAndPublish(FiberEntity* self, bool (*publish)(void* argument) noexcept, void* argument,
                    WaitReason reason = {}) noexcept;

// Any thread; exactly once per park. Never blocks, never fails, never switches.
void Unpark(FiberEntity* fiber) noexcept;

// The same for a fiber made known by ParkAndPublish().
void UnparkPublished(FiberEntity* fiber) noexcept;

// Unpark() for several fibers: pushes those of a group one after the other, then notifies once (wake_and_steal.h).
// as_from_outside: where those are that a timer, a poller or a thread wakes (global_queue.h), also by a worker.
void UnparkRemote(FiberEntity* const* fibers, std::size_t count, bool as_from_outside = false) noexcept;

// A fiber. Ready fibers run first; returns at once if there are none.
void YieldCurrentFiber() noexcept;

// A fiber. `fiber`, new and of the caller's group, runs at once on this worker; the caller queues behind ready ones.
void RunInsteadOfCurrent(FiberEntity* fiber) noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_PARK_H_
