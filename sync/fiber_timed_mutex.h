// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberTimedMutex: a FiberMutex that one may stop waiting for, and that has no owner. Everything else that
// fiber_mutex.h says holds here too, fairness included; the algorithm is the same, and so is the cost when nobody
// waits.
//
// No owner, as in tRPC-Cpp: any fiber or thread may unlock what another has locked. A holder that locks again waits:
// lock() until another unlocks it, try_lock_for() no longer than its time. The mutex may be destroyed while it is
// locked, but not while somebody waits for it. FiberMutex takes all of this for a mistake.
//
// try_lock_for(), try_lock_until(): as the standard's (base/deadline.h). May switch (a thread: block). False: the
// deadline passed, and the mutex is not the caller's. A deadline that has passed already makes one attempt. A waiter
// whose deadline passes while it is being woken takes the mutex if it is free at that moment (true, a little late).
// The timer that ends a wait never touches the mutex (WQ4). The waiter then leaves the queue itself, inside its call,
// and until that returns the mutex must live.
#ifndef WEFT_SYNC_FIBER_TIMED_MUTEX_H_
#define WEFT_SYNC_FIBER_TIMED_MUTEX_H_

#include "weft/base/clocks.h"
#include "weft/base/deadline.h"
#include "weft/base/thread_annotations.h"
#include "weft/scheduling_group/time_slice.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

class WEFT_CAPABILITY("FiberTimedMutex") FiberTimedMutex : private FiberMutex {
 public:
  constexpr FiberTimedMutex() = default;
  FiberTimedMutex(const FiberTimedMutex&) = delete;
  FiberTimedMutex& operator=(const FiberTimedMutex&) = delete;
  ~FiberTimedMutex() { ForgetTheLock(); }

  void lock() WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    static_cast<void>(LockUntil(Deadline::None(), kNoOwner));
  }
  [[nodiscard]] bool try_lock() WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS { return TakeFree(kNoOwner); }
  void unlock() WEFT_RELEASE() WEFT_NO_THREAD_SAFETY_ANALYSIS { UnlockAs(kNoOwner); }

  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout)
      WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return try_lock() || LockUntil(Deadline(timeout), kNoOwner);
  }

  [[nodiscard]] bool try_lock_until(Deadline deadline) WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return LockUntil(deadline, kNoOwner);
  }
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_TIMED_MUTEX_H_
