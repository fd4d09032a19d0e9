// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberMutex: mutual exclusion for fibers and threads. 24 bytes; uncontended, one read-modify-write each way.
// FiberTimedMutex, below: the same with time-outs, and without an owner.
//
// Who may call: any fiber and any thread, before, during and after the runtime. lock() may switch (a thread: block);
// try_lock() and unlock() never do. Not recursive: an owner that calls lock() again ends the process, with a message.
// The fiber (thread) that locked it must unlock it: debug builds check this.
// Memory ordering: what an owner did before unlock() is visible to the next owner after its lock() or try_lock().
// Lifetime: may be destroyed when nobody owns it or waits for it; by the last owner as soon as its unlock() has
// returned, even if an earlier owner is still inside unlock() (MX5).
// Not a cancellation point. When the caller's time slice is over, lock() first lets others run (time_slice.h).
//
// How it works. Barging with a bound: unlock() frees the mutex and wakes the first waiter, which must then win it like
// any other; handing it over would make each lock cost a switch (docs/decisions/008-barging-mutex.md). A woken waiter
// that has lost for kPatience requests a hand-off: the next unlock() makes it the owner.
//
// If owners suspend inside the critical section, barging backfires: the woken waiter runs while the owner is queued,
// loses, and sleeps again: two switches a lock. The symptom is a waiter that loses several times in a row on the worker
// that woke it. It then requests a row of hand-offs, kHandOffsInARow at most, for itself and those behind it
// (BM_ContendedWhileYielding).
//
//      word_   bit 0        kLocked     somebody owns it
//              bit 1        kQueued     waiters_ is not empty
//              bit 2        kWoken      a waiter has been woken and has neither won the mutex nor queued again
//              bit 3        kHandOff   the next unlock() gives the mutex to the first waiter
//              bits 4..31   the owner's tag, in debug builds; 0: unknown
//
//      free --lock--> kLocked
//      kLocked --another lock--> kLocked|kQueued
//      kLocked|kQueued --unlock--> kWoken (|kQueued): free, and the first waiter is woken. Then either
//        --the woken one--> kLocked (|kQueued), or
//        --a barger--> kLocked|kWoken --the woken one has lost, queues in front--> kLocked|kQueued (|kHandOff)
//      kLocked|kQueued|kHandOff --unlock--> kLocked (|kQueued (|kHandOff)): the owner is the first waiter now
//
// Invariants
//   MX1  kQueued and kHandOff change under queue_lock_ only; kQueued is set exactly while waiters_ is not empty (as
//        seen by a holder of queue_lock_). kHandOff implies kLocked and excludes kWoken.
//   MX2  While waiters_ is not empty, the mutex is locked or kWoken is set: somebody will look. A waiter queues by a
//        compare-and-swap that finds kLocked.
//   MX3  At most one woken waiter is under way (kWoken). It clears the bit when it wins, queues again or times out.
//   MX4  While the owner holds queue_lock_ and kWoken is not set, the word does not change under it: all others need
//        the mutex free, or queue_lock_, or (to give up) are the one that kWoken stands for; a lock() that comes by
//        sets kLocked, which is set. kWoken is set by owners only, or while the mutex is free.
//   MX5  unlock() touches the mutex last in the write that frees it, or (with waiters) in the unlock of queue_lock_,
//        before the waiter that it chose can run; that waiter is inside lock(), so the mutex lives till then. It never
//        frees the mutex under queue_lock_ without having chosen one.
//   MX6  The first waiter, after losing for kPatience, owns the mutex as soon as the owner of that moment has unlocked.
//   MX7  The first waiter's `count` says how many hand-offs of a row are left. If it times out the row ends early.
//
// While fibers compete without switching, most of the time some are queued and one has been woken. So lock() sets
// kLocked whatever the other bits are, and unlock() guesses those from waiters_ (two workers, bench/workload
// --workload=mutex: 18 ns a lock, against 48 where both expected a word without other bits).
//
// Rejected: hand-off always, a wake at each unlock, adaptive spinning: docs/decisions/008-barging-mutex.md.
#ifndef WEFT_SYNC_FIBER_MUTEX_H_
#define WEFT_SYNC_FIBER_MUTEX_H_

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

namespace synchronization {
class Waiter;
}

class FiberConditionVariable;

class WEFT_CAPABILITY("FiberMutex") FiberMutex {
 public:
  // Free. Usable before any initialisation of the program has run.
  constexpr FiberMutex() = default;
  FiberMutex(const FiberMutex&) = delete;
  FiberMutex& operator=(const FiberMutex&) = delete;
  ~FiberMutex() {
    // relaxed: who destroys it is ordered after all its users.
    if (WEFT_UNLIKELY(!waiters_.empty_hint())) FailWaitedFor();
    WEFT_DCHECK(word_.load(std::memory_order_relaxed) == 0, "FiberMutex::~FiberMutex: it is locked");
  }

  // Waits until it is free, and takes it. May switch (a thread: block). No cancellation point.
  void lock() WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    static_cast<void>(LockUntil(Deadline::None(), OwnerTag()));
    owner_.Set();
  }

  // Takes it if it is free. Never waits.
  [[nodiscard]] bool try_lock() WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (!TakeFree(OwnerTag())) return false;
    owner_.Set();
    return true;
  }

  // Frees it, and wakes a waiter. By its owner. Never switches.
  void unlock() WEFT_RELEASE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    owner_.Clear();
    UnlockAs(OwnerTag());
  }

 protected:
  // For FiberTimedMutex: the tag of one that has no owner.
  static constexpr std::uint32_t kNoOwner = 0;

  // False: the deadline passed.
  [[nodiscard]] bool LockUntil(Deadline deadline, std::uint32_t tag) noexcept {
    return WEFT_LIKELY(TakeFree(tag)) || LockSlow(deadline, tag);
  }

  // Wins it if it is not locked, whatever the other bits say.
  bool TakeFree(std::uint32_t tag) noexcept {
    if constexpr (kHasTags) return TakeUnlocked(/*woken=*/false, tag);  // The tag comes with the bit.
    // acquire: what the last owner did. Pairs with the releases in UnlockAs() and UnlockSlow().
    return (word_.fetch_or(kLocked, std::memory_order_acquire) & kLocked) == 0;
  }

  void UnlockAs(std::uint32_t tag) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    // What the word most likely is: locked; or, where others are queued, one of them has been woken, too. A load of the
    // word itself would have to wait for lock()'s exchange: 2.5 ns.
    std::uint32_t others = 0;
    if (WEFT_UNLIKELY(!waiters_.empty_hint())) {
      others = kQueued | kWoken;
      asm("" : "+r"(others));  // Stays a branch: six instructions less where nobody waits.
    }
    std::uint32_t word = kLocked | tag | others;
    // release: what we did as the owner. Pairs with the acquire of the next owner's exchange.
    if (WEFT_UNLIKELY(
            !word_.compare_exchange_strong(word, others, std::memory_order_release, std::memory_order_relaxed))) {
      UnlockSlow();
      asm("");  // No tail call: the caller is to be seen on the stack (wait/contention.h).
    }
  }

  // Its destructor may find it locked.
  void ForgetTheLock() noexcept {
    if constexpr (kHasTags) word_.fetch_and(~kLocked, std::memory_order_relaxed);  // relaxed: as in the destructor.
  }

 private:
  friend class FiberConditionVariable;
  friend struct synchronization::LockOwnerPlace;

  static constexpr std::uint32_t kLocked = 1;
  static constexpr std::uint32_t kQueued = 2;
  static constexpr std::uint32_t kWoken = 4;
  static constexpr std::uint32_t kHandOff = 8;
  static constexpr std::uint32_t kFlags = 15;
  static constexpr int kTagShift = 4;

  // How long a waiter loses before it gets the mutex handed off: long against a switch (0.1 us) and a futex wake (20
  // us), so that the hand-offs cost nothing; short against what a user notices.
  static constexpr std::chrono::microseconds kPatience{1000};

  // The row of hand-offs. Fibers that compete without switching also lose on the worker that woke them, but seldom
  // twice in a row (docs/decisions/008-barging-mutex.md). So a wrong row may cost some microseconds.
  static constexpr unsigned kLossesBesideWaker = 2;
  static constexpr std::uint16_t kHandOffsInARow = 32;

  // Who calls, in 28 bits, not 0; 0 in release builds. Shifted into place.
#ifdef NDEBUG
  static constexpr bool kHasTags = false;
  static constexpr std::uint32_t OwnerTag() noexcept { return 0; }
#else
  static constexpr bool kHasTags = true;
  static std::uint32_t OwnerTag() noexcept { return CallerTag(); }
#endif
  static std::uint32_t CallerTag() noexcept;

  // As TakeFree(); `woken`: the caller is the one that kWoken stands for.
  bool TakeUnlocked(bool woken, std::uint32_t tag) noexcept;
  bool LockSlow(Deadline deadline, std::uint32_t tag) noexcept;
  void UnlockSlow() noexcept;

  bool SpinForIt(bool is_fiber, std::uint32_t tag) noexcept;
  bool Contend(synchronization::Waiter* waiter, bool woken, Deadline deadline) noexcept;
  bool QueueUp(synchronization::Waiter* waiter, bool woken, std::uint16_t hand_offs, Deadline deadline) noexcept;
  void LeaveQueue(synchronization::Waiter* waiter) noexcept;
  bool GiveUpWoken(std::uint32_t tag) noexcept;
  bool Release(std::uint32_t* word) noexcept;
  void CheckOwner(std::uint32_t word) const noexcept;
  void CheckNotRecursive(std::uint32_t word) const noexcept;
  void FailWaitedFor() const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS;  // The destructor's.

  // FiberConditionVariable: waiters that have been notified and want this mutex.
  bool locked_hint() const noexcept {
    return (word_.load(std::memory_order_relaxed) & kLocked) != 0;  // Chooses the way only; both are right.
  }
  // Moves them all behind our waiters and wakes at most one of them now, when nobody else will. Any thread.
  void Adopt(synchronization::WaitList* claimed) noexcept;
  // The owner of a waiter that was adopted, when it has been woken: returns with the mutex locked.
  void LockAdopted(synchronization::Waiter* waiter) noexcept;

  base::Atomic<std::uint32_t> word_{0};
  base::SpinLock queue_lock_;
  synchronization::WaitList waiters_ WEFT_GUARDED_BY(queue_lock_);
  synchronization::LockOwner owner_;
};

static_assert(sizeof(FiberMutex) == 24);

// A FiberMutex that one may stop waiting for, and that has no owner. All else that is said above holds here, too.
//
// No owner, as in tRPC-Cpp: any fiber or thread may unlock it. A holder that locks again waits until another unlocks
// it, or until its time is over. The mutex may be destroyed while it is locked, but not while somebody waits for it.
//
// try_lock_for(), try_lock_until(): as the standard's (base/deadline.h). May switch (a thread: block). False: the
// deadline passed. A deadline that has passed already makes one attempt. A waiter whose deadline passes while it is
// being woken takes the mutex if it is free then (true, a little late). The mutex must live until the call returns: the
// waiter itself leaves the queue (WS5). The time-out touches the fiber's entity and its decision word only (WQ4).
class WEFT_CAPABILITY("FiberTimedMutex") FiberTimedMutex : private FiberMutex {
 public:
  // Free. Usable before any initialisation of the program has run.
  constexpr FiberTimedMutex() = default;
  FiberTimedMutex(const FiberTimedMutex&) = delete;
  FiberTimedMutex& operator=(const FiberTimedMutex&) = delete;
  ~FiberTimedMutex() { ForgetTheLock(); }

  // Waits until it is free, and takes it. May switch (a thread: block). No cancellation point.
  void lock() WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    static_cast<void>(LockUntil(Deadline::None(), kNoOwner));
  }
  // Takes it if it is free. Never waits.
  [[nodiscard]] bool try_lock() WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS { return TakeFree(kNoOwner); }
  // Frees it, and wakes a waiter. Any fiber or thread may. Never switches.
  void unlock() WEFT_RELEASE() WEFT_NO_THREAD_SAFETY_ANALYSIS { UnlockAs(kNoOwner); }

  // The same as lock() with a limit. False: it was not free in time, and is not taken. A `timeout` of 0 or below makes
  // one attempt.
  template <class Rep, class Period>
  [[nodiscard]] bool try_lock_for(const std::chrono::duration<Rep, Period>& timeout)
      WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return try_lock() || LockUntil(Deadline(timeout), kNoOwner);
  }

  // False: it was not free at the deadline, and is not taken.
  [[nodiscard]] bool try_lock_until(Deadline deadline) WEFT_TRY_ACQUIRE(true) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    scheduling_group::YieldIfSliceIsOver();
    return LockUntil(deadline, kNoOwner);
  }
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_MUTEX_H_
