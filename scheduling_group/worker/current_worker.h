// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CurrentWorker(): the calling thread as a worker, if it is one.
//
// The result is valid until the next switch only: the fiber may go on on another thread. Compilers keep the address of
// a thread_local over a switch when they see the access. Hence it is read by an assembler instruction, which they may
// not merge with another one, or, on other machines, by a function that is never inlined.
//
// A start may wait or switch when the run queue is full, unless the calling thread forbids it: a timer thread does, as
// all timers of its group would wait (SetThreadMayWait()), and so does a NoWaitSection while it lives. The fiber then
// goes into the overflow list (start_when_full.h).
#ifndef WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
#define WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch/context.h"
#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::scheduling_group {

class FiberEntity;
class KeptTimers;
class MainContext;
class RecorderRing;
class SchedulingGroup;

// The fiber that runs on a worker. Its thread writes and reads it, as a plain pointer.
class RunningFiber {
 public:
  RunningFiber& operator=(FiberEntity* fiber) noexcept {
    // release: the fiber, as the worker has acquired it. Pairs with the acquire in Look().
    fiber_.store(fiber, std::memory_order_release);
    return *this;
  }
  operator FiberEntity*() const noexcept { return fiber_.load(std::memory_order_relaxed); }  // NOLINT: as a pointer.
  FiberEntity* operator->() const noexcept { return *this; }

  // Any thread: a snapshot.
  FiberEntity* Look() const noexcept { return fiber_.load(std::memory_order_acquire); }

 private:
  std::atomic<FiberEntity*> fiber_{nullptr};
};

// The part of a worker that all of this layer may see. Owned by its thread.
struct WorkerBase : context::ThreadState {
  SchedulingGroup* group = nullptr;
  unsigned index = 0;  // in its group
  int group_id = 0;
  PushCountdown push_countdown;  // belongs to the sampler in its worker slot
  RunningFiber current;          // the fiber that runs on it; nullptr: its loop

  bool of_loop = false;  // of a loop group (loop_groups.h)
  // An on_exit hook runs, between a switch and its end (W2 in worker.h), or a poll, or a NoWaitSection lives.
  bool must_not_switch = false;
  RecorderRing* events = nullptr;       // where it writes them (events/recorder.h); nullptr: nowhere yet
  MainContext* main_context = nullptr;  // of a loop group: its user's function runs in its loop (thread_parker.h)

  KeptTimers* kept_timers = nullptr;  // KT1 in idle/kept_timers.h; nullptr: it keeps none

  // Functions of worker.cc, for files that may not include it. By a fiber on this worker. They switch.
  void (*yield_current)(WorkerBase*) = nullptr;                         // the caller is queued, others run
  void (*run_instead_of_current)(WorkerBase*, FiberEntity*) = nullptr;  // this one runs, the caller goes on soon
  void (*yield_after_slice)(WorkerBase*) = nullptr;                     // as yield_current, if its slice is over

  // The fiber whose code runs. nullptr: it is nobody's: a poll, the end of another fiber, what else may not switch.
  FiberEntity* Waker() const noexcept { return must_not_switch ? nullptr : static_cast<FiberEntity*>(current); }
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
  // weft_current_worker is in current_worker.cc. volatile and "memory": it is read at each call, in program order.
  asm volatile("movq weft_current_worker@gottpoff(%%rip), %0\n\tmovq %%fs:(%0), %0" : "=r"(worker) : : "memory");
  return worker;
}
#else
WEFT_TLS_ACCESSOR WorkerBase* CurrentWorker() noexcept;
#endif
// The countdown of the calling thread's pushes. worker: CurrentWorker().
WEFT_ALWAYS_INLINE PushCountdown& PushCountdownOf(WorkerBase* worker) noexcept {
  return worker != nullptr ? worker->push_countdown : ThisThreadsPushSampler().countdown;
}
// By a worker, when its thread starts and ends.
WEFT_TLS_ACCESSOR void SetCurrentWorker(WorkerBase* worker) noexcept;

// Of a plain thread: whether it may wait for room in a run queue.
WEFT_TLS_ACCESSOR void SetThreadMayWait(bool may_wait) noexcept;
WEFT_TLS_ACCESSOR bool ThreadMayWait() noexcept;

// While it lives, a start by the calling thread, in a fiber or not, neither waits nor switches. Nor does its owner.
class NoWaitSection {
 public:
  NoWaitSection() noexcept : worker_(CurrentWorker()) {
    if (worker_ != nullptr) {
      could_ = !std::exchange(worker_->must_not_switch, true);
    } else {
      could_ = ThreadMayWait();
      SetThreadMayWait(false);
    }
  }
  NoWaitSection(const NoWaitSection&) = delete;
  NoWaitSection& operator=(const NoWaitSection&) = delete;
  ~NoWaitSection() {
    if (worker_ != nullptr) {
      worker_->must_not_switch = !could_;
    } else {
      SetThreadMayWait(could_);
    }
  }

 private:
  WorkerBase* const worker_;
  bool could_;
};

// Any thread. The calling fiber; nullptr: the caller is not a fiber.
WEFT_ALWAYS_INLINE FiberEntity* CurrentFiber() noexcept {
  WorkerBase* worker = CurrentWorker();
  return worker != nullptr ? static_cast<FiberEntity*>(worker->current) : nullptr;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_CURRENT_WORKER_H_
