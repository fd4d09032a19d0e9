// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSharedMutex: one writer or many readers; as std::shared_timed_mutex, for fibers and threads.
//
// Who may call: any fiber and any thread. lock(), lock_shared() and the timed forms may switch (a thread: block); the
// others never do. Not recursive, neither way: a reader that reads again may wait for a writer that waits for it. A
// self-deadlock without a deadline ends the process with a message: always for a writer; for a reader only if it was
// the last to enter and none has left since.
// Memory ordering: what a writer did is visible to all later owners; what a reader did, to the next writer.
// Lifetime: as FiberMutex: the last owner may destroy it once its unlock has returned (SM4). Not a cancellation point.
//
// Fairness: by phases. While a writer waits no new reader enters, so writers do not starve. When a writer leaves, all
// readers that wait by then enter together, so readers do not starve either: each waits for at most one writer. The
// unlocker hands the mutex off: it belongs to the chosen ones before they run.
//
//      word_   bit 0        kWriter   a writer owns it
//              bit 1        kWaiters  somebody waits: all come to the slow path
//              bits 2..31   how many readers own it
//
// Invariants
//   SM1  kWaiters changes under queue_lock_ only, and is set while somebody is queued. Then the mutex is owned.
//   SM2  With kWaiters set and without queue_lock_, the word changes only in that a reader which is not the last
//        leaves. So its last owner, holding queue_lock_, may write it plainly.
//   SM3  Readers are queued only behind a writer: one that owns the mutex, or waits, or has just given up waiting (and
//        lets them in when it leaves the queue).
//   SM4  An unlock touches the mutex last in the write that frees it or, with waiters, in the unlock of queue_lock_,
//        before those it chose can run. If it chose nobody, it does not free the mutex under queue_lock_ (MX5).
// Rejected: a counter per worker for the readers (large, slow for writers; a lock that is read that often wants RCU).
#ifndef WEFT_SYNC_FIBER_SHARED_MUTEX_H_
#define WEFT_SYNC_FIBER_SHARED_MUTEX_H_

#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/wait/lock_owner.h"
#include "weft/sync/wait/wait_state.h"

namespace weft {

class WEFT_CAPABILITY("FiberSharedMutex") FiberSharedMutex {
 public:
  // Free. Usable before any initialisation of the program has run.
  constexpr FiberSharedMutex() = default;
  FiberSharedMutex(const FiberSharedMutex&) = delete;
  FiberSharedMutex& operator=(const FiberSharedMutex&) = delete;
  ~FiberSharedMutex() {
    // relaxed: who destroys it is ordered after all its users.
    if (WEFT_UNLIKELY(!writers_.empty_hint() || !readers_.empty_hint())) FailWaitedFor();
    WEFT_DCHECK(word_.load(std::memory_order_relaxed) == 0, "FiberSharedMutex::~FiberSharedMutex: it is locked");
  }

  // --- The writer ---

  // Waits until nobody has it, and takes it as the writer. May switch (a thread: block).
  void lock() WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    static_cast<void>(LockUntil(Deadline::None()));
  }
  // Takes it as the writer if nobody has it. Never waits.
  [[nodiscard]] bool try_lock() WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (!TakeFree()) return false;
    writer_.Set();
    return true;
  }
  // The same as lock() with a limit. False: not in time, and it is not taken.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout)
      WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return try_lock() || LockUntil(Deadline(timeout));
  }
  // The same with a deadline.
  [[nodiscard]] bool try_lock_until(Deadline deadline) WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return LockUntil(deadline);
  }
  // By the writer. Frees it, or hands it to those that wait. Never switches.
  void unlock() WEFT_RELEASE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    writer_.Clear();
    if (WEFT_UNLIKELY(!GiveUpWriter())) UnlockSlow();
  }

  // --- A reader ---

  // Waits while a writer has it or waits for it, and takes it as a reader, beside others. May switch (a thread: block).
  void lock_shared() WEFT_ACQUIRE_SHARED() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    static_cast<void>(LockSharedUntil(Deadline::None()));
  }
  // Takes it as a reader if no writer has it or waits for it. Never waits.
  [[nodiscard]] bool try_lock_shared() WEFT_TRY_ACQUIRE_SHARED(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (!JoinReaders()) return false;
    last_reader_.Set();
    return true;
  }
  // The same as lock_shared() with a limit. False: not in time, and it is not taken.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_shared_for(const std::chrono::duration<Rep, Period>& timeout)
      WEFT_TRY_ACQUIRE_SHARED(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return try_lock_shared() || LockSharedUntil(Deadline(timeout));
  }
  // The same with a deadline.
  [[nodiscard]] bool try_lock_shared_until(Deadline deadline)
      WEFT_TRY_ACQUIRE_SHARED(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return LockSharedUntil(deadline);
  }
  // By a reader. The last one lets a writer in. Never switches.
  void unlock_shared() WEFT_RELEASE_SHARED() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    last_reader_.Clear();
    if (WEFT_UNLIKELY(!LeaveReaders())) UnlockSharedSlow();
  }

 private:
  friend struct synchronization::LockOwnerPlace;

  static constexpr std::uint32_t kWriter = 1;
  static constexpr std::uint32_t kWaiters = 2;
  static constexpr std::uint32_t kOneReader = 4;

  bool TakeFree() noexcept {
    std::uint32_t free = 0;
    // acquire: what all former owners did. Pairs with the releases in GiveUpWriter() and LeaveReaders().
    return word_.compare_exchange_strong(free, kWriter, std::memory_order_acquire, std::memory_order_relaxed);
  }

  bool JoinReaders() noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while ((word & (kWriter | kWaiters)) == 0) {
      // acquire: what the last writer did. Pairs with the release in GiveUpWriter().
      if (word_.compare_exchange_weak(word, word + kOneReader, std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // False: somebody waits.
  bool GiveUpWriter() noexcept {
    std::uint32_t word = kWriter;
    // release: what we did as the writer. Pairs with the acquires in TakeFree() and JoinReaders().
    return word_.compare_exchange_strong(word, 0, std::memory_order_release, std::memory_order_relaxed);
  }

  // False: somebody waits, and we are the last reader.
  bool LeaveReaders() noexcept {
    std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while (word != (kOneReader | kWaiters)) {
      WEFT_CHECK(word >= kOneReader, "FiberSharedMutex::unlock_shared: no reader owns it");
      // release: we have read; no later writer's writes may be seen by us. Pairs with the acquires in TakeFree() and
      // UnlockSharedSlow().
      if (word_.compare_exchange_weak(word, word - kOneReader, std::memory_order_release, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // False: the deadline passed.
  bool LockUntil(Deadline deadline) noexcept {
    if (WEFT_UNLIKELY(!TakeFree()) && !LockSlow(deadline)) return false;
    writer_.Set();
    return true;
  }
  bool LockSharedUntil(Deadline deadline) noexcept {
    if (WEFT_UNLIKELY(!JoinReaders()) && !LockSharedSlow(deadline)) return false;
    last_reader_.Set();
    return true;
  }

  bool LockSlow(Deadline deadline) noexcept;
  bool LockSharedSlow(Deadline deadline) noexcept;
  void UnlockSlow() noexcept;
  void UnlockSharedSlow() noexcept;

  // True: a waiter is announced. False: the word had no bit of `blocked_by`, and `take` was added: it is the caller's.
  bool AnnounceWaiterOr(std::uint32_t blocked_by, std::uint32_t take) noexcept WEFT_REQUIRES(queue_lock_);
  bool Await(synchronization::WaitList* list, Deadline deadline) noexcept WEFT_RELEASE(queue_lock_);
  // The last owner, with waiters: hands off to one of these. False: nobody is there any more.
  bool HandToReaders(synchronization::WaitList* chosen) noexcept WEFT_REQUIRES(queue_lock_);
  bool HandToWriter(synchronization::WaitList* chosen) noexcept WEFT_REQUIRES(queue_lock_);
  // Before a wait without end.
  void CheckNotOwnedByCaller(const char* function) const noexcept;
  void CheckNoReadBehindWriter() const noexcept WEFT_REQUIRES(queue_lock_);
  void FailWaitedFor() const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS;  // The destructor's.
  // A waiter has left the queue without the mutex.
  void OnWaiterLeft(synchronization::WaitList* chosen) noexcept WEFT_REQUIRES(queue_lock_);

  base::Atomic<std::uint32_t> word_{0};
  base::SpinLock queue_lock_;
  synchronization::WaitList writers_ WEFT_GUARDED_BY(queue_lock_);
  synchronization::WaitList readers_ WEFT_GUARDED_BY(queue_lock_);
  synchronization::LockOwner writer_;
  synchronization::LockOwner last_reader_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_SHARED_MUTEX_H_
