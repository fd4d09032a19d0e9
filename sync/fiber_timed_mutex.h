// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberTimedMutex: a FiberMutex that one may stop waiting for, and that has no owner. All else that fiber_mutex.h says
// holds here, too.
//
// No owner, as in tRPC-Cpp: any fiber or thread may unlock it. A holder that locks again waits until another unlocks
// it, or until its time is over. The mutex may be destroyed while it is locked, but not while somebody waits for it.
//
// try_lock_for(), try_lock_until(): as the standard's (base/deadline.h). May switch (a thread: block). False: the
// deadline passed. A deadline that has passed already makes one attempt. A waiter whose deadline passes while it is
// being woken takes the mutex if it is free then (true, a little late). The mutex must live until the call returns: the
// waiter itself leaves the queue (WS5). The time-out touches the fiber's entity and its decision word only (WQ4).
#ifndef WEFT_SYNC_FIBER_TIMED_MUTEX_H_
#define WEFT_SYNC_FIBER_TIMED_MUTEX_H_

#include "weft/base/deadline.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/time_slice.h"
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
