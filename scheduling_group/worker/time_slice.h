// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Time slices: a fiber that never needs to wait lets others run all the same.
//
// A worker runs a fiber until it waits. A fiber that loops over free locks, set events and sockets with data would keep
// its worker for ever. So each operation that may switch begins with YieldIfSliceIsOver(): a fiber that has run for
// kTimeSlice of CPU time yields there, as by FiberYield(), after its worker has polled for input and output.
//
// These operations are: lock(), lock_shared() and the timed forms of FiberMutex, FiberTimedMutex and FiberSharedMutex;
// waiting for a FiberSemaphore, FiberEvent, FiberLatch or FiberBarrier; Put() and Get() of a FiberChannel; all of the
// blocking queues; ReadSeqBegin() and WriteSeqLock(); joining a fiber; all of io/ that may wait. Calls that never
// switch (unlock(), Release(), Set(), the try_ forms) do not yield: a fiber that only computes, or loops over
// try_lock(), must call FiberYield().
//
// The switch comes before the operation, so a fiber never yields with the lock that it has just taken. It queues behind
// the ready fibers; if there are none, nothing happens.
//
// Cost while the slice is not over: a load of the thread's own flag, which watchdog.h raises, and a branch.
// Rejected: counting operations and reading the clock at zero (the store costs 2 ns, a fifth of a lock and unlock:
// BM_Uncontended); one flag for all threads (a worker that computes would send all others down the slow path).
// YieldIfSliceIsOver(): any thread, where the caller may switch. The flag of a plain thread is never raised.
#ifndef WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_
#define WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_

#include <atomic>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

// CPU time of a slice: two to three checks of the Watchdog (watchdog.h), if these are in time. Long against a
// switch and the cold caches after it (some microseconds), short against what a user notices.
inline constexpr std::chrono::milliseconds kTimeSlice{30};

// The calling thread's flag. Any thread may raise it; only its own lowers it.
WEFT_TLS_ACCESSOR std::atomic<bool>* TimeSliceFlag() noexcept;

// Any thread.
#if WEFT_WORKER_BY_ASSEMBLER
WEFT_ALWAYS_INLINE bool TimeSliceIsOver() noexcept {
  bool over;
  const void* offset;
  // weft_slice_is_over is in time_slice.cc. volatile: read each time (current_worker.h). A hint: it orders nothing.
  asm volatile("movq weft_slice_is_over@gottpoff(%%rip), %1\n\tcmpb $0, %%fs:(%1)" : "=@ccne"(over), "=r"(offset));
  return over;
}
#else
WEFT_TLS_ACCESSOR bool TimeSliceIsOver() noexcept;
#endif

// After TimeSliceIsOver(): yields if the flag was raised for the calling fiber's turn.
void YieldAfterSlice() noexcept;

WEFT_ALWAYS_INLINE void YieldIfSliceIsOver() noexcept {
  if (WEFT_UNLIKELY(TimeSliceIsOver())) YieldAfterSlice();
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_TIME_SLICE_H_
