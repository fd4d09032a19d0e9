// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Time slices: a fiber that never finds a reason to wait lets others run all the same.
//
// A worker runs a fiber until that one waits. One that loops over locks that are free, events that are set and sockets
// that have data would keep its worker for itself. So each operation that may switch begins with YieldIfSliceIsOver():
// once the fiber has run for kTimeSlice of CPU time, it yields there, as by FiberYield(), and first has its worker look
// for input and output.
//
// What counts: FiberMutex, FiberTimedMutex and FiberSharedMutex: lock(), lock_shared() and the timed forms; waiting for
// a FiberSemaphore, FiberEvent, FiberLatch or FiberBarrier; Put() and Get() of a FiberChannel; all of the blocking
// queues; ReadSeqBegin() and WriteSeqLock(); joining a fiber; whatever io/ does that may wait. A fiber that loops over
// these yields after kTimeSlice at the latest, and then every kTimeSlice; where the machine is busy the monitor
// (slice_monitor.h) may come later.
// Calls that never switch (unlock(), Release(), Set(), the try_ forms) do not yield, nor does computing. A fiber that
// only computes, or asks try_lock() again and again, calls FiberYield().
//
// The switch comes before the operation: a fiber never yields with the lock that it has just taken. Who yields queues
// behind those that are ready; nothing happens if there are none.
//
// Cost where the slice is not over: a load of a flag of the thread's own, and a branch. No clock is read, nothing is
// counted: who raises the flag is slice_monitor.h.
// Rejected: counting down in each operation, and a look at the clock at zero (a store before a locked instruction costs
// 2 ns, a fifth of a lock and unlock: bench/sync/fiber_mutex_benchmark.cc, BM_Uncontended; and a number of operations
// says little about time); one flag for all threads (a worker that computes would send all others the slow way).
//
// YieldIfSliceIsOver(): any thread, where the caller may switch. Threads that are no workers are never asked.
#ifndef WEFT_SCHEDULING_GROUP_TIME_SLICE_H_
#define WEFT_SCHEDULING_GROUP_TIME_SLICE_H_

#include <atomic>

#include "weft/base/clocks.h"
#include "weft/base/cpu.h"
#include "weft/scheduling_group/current_worker.h"

namespace weft::scheduling_group {

// CPU time, at most, as long as the monitor is in time: three of its checks (slice_monitor.h); at least two.
// Long against what a switch and the cold caches after it cost (some microseconds); short against what a user notices.
// Of n fibers that loop on one worker each waits for n - 1 slices, with any number of workers.
inline constexpr std::chrono::milliseconds kTimeSlice{30};

// The flag of the calling thread. Any thread may raise it; its own lowers it.
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

// The same, where it is over: yields if the calling fiber is the one whose slice it was.
void YieldAfterSlice() noexcept;

WEFT_ALWAYS_INLINE void YieldIfSliceIsOver() noexcept {
  if (WEFT_UNLIKELY(TimeSliceIsOver())) YieldAfterSlice();
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_TIME_SLICE_H_
