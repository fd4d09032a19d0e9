// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// CurrentWorker(): the worker that the calling thread is, if it is one.
//
// A fiber may wake up on another thread after any switch, so the answer is good until the next switch only, and the
// address of a thread_local must never be kept over one: compilers do that when they can see the access. Hence the
// thread_local is read by an assembler instruction that they may not merge with another one, or, where there is none,
// by a function that is never inlined.
#ifndef WEFT_SCHEDULING_GROUP_CURRENT_WORKER_H_
#define WEFT_SCHEDULING_GROUP_CURRENT_WORKER_H_

#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/context/context.h"
#include "weft/scheduling_group/push_sampler.h"

namespace weft::scheduling_group {

class FiberEntity;
class SchedulingGroup;

// The part of a worker that everybody in this layer may see. Owned by its thread.
struct WorkerBase : context::ThreadState {
  SchedulingGroup* group = nullptr;
  unsigned index = 0;              // in its group
  PushCountdown push_countdown;    // of the sampler in its worker slot
  FiberEntity* current = nullptr;  // the fiber that runs on it; nullptr: its own loop does

  bool is_driven = false;        // of a driven group (driven_groups.h)
  bool must_not_switch = false;  // an on_exit hook runs, between a switch and its end (W2 in worker.h)

  // What a fiber on this worker may ask of it (worker.cc), for files below it. They switch.
  void (*yield_current)(WorkerBase*) = nullptr;                         // the caller is queued, others run
  void (*run_instead_of_current)(WorkerBase*, FiberEntity*) = nullptr;  // this one runs, the caller goes on soon
  void (*yield_after_slice)(WorkerBase*) = nullptr;                     // as yield_current, if its slice is over
};

#if defined(__x86_64__) && defined(__LP64__)
#define WEFT_WORKER_BY_ASSEMBLER 1
#else
#define WEFT_WORKER_BY_ASSEMBLER 0
#endif

// Any thread; nullptr outside of workers.
#if WEFT_WORKER_BY_ASSEMBLER
WEFT_ALWAYS_INLINE WorkerBase* CurrentWorker() noexcept {
  WorkerBase* worker;
  // weft_current_worker is in current_worker.cc. volatile and "memory": read each time, and not before what precedes it
  // or after what follows.
  asm volatile("movq weft_current_worker@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(worker) : : "memory");
  return worker;
}
#else
WEFT_TLS_ACCESSOR WorkerBase* CurrentWorker() noexcept;
#endif
// Of the pushes of the calling thread. worker: CurrentWorker().
WEFT_ALWAYS_INLINE PushCountdown& PushCountdownOf(WorkerBase* worker) noexcept {
  return worker != nullptr ? worker->push_countdown : ThisThreadsPushSampler().countdown;
}
// A worker, when its thread starts and ends.
WEFT_TLS_ACCESSOR void SetCurrentWorker(WorkerBase* worker) noexcept;

// Any thread. The fiber that calls; nullptr if the caller is none.
WEFT_ALWAYS_INLINE FiberEntity* CurrentFiber() noexcept {
  WorkerBase* worker = CurrentWorker();
  return worker != nullptr ? worker->current : nullptr;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_CURRENT_WORKER_H_
