// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSemaphore: a counting semaphore, as std::counting_semaphore. First come, first served.
//
// Sample:
//   FiberSemaphore connections(16);
//   connections.Acquire();                       // waits as long as it takes
//   connections.Release();
//   if (!connections.Acquire(5ms)) return;       // no unit in time
//   connections.Release();
//
// Who may call: any fiber and any thread. Acquire() may switch (a thread: block) and is a cancellation point: it
// throws, or takes a unit; Release() and TryAcquire() never do.
// Memory ordering: what X did before a Release() is visible to Y after it acquired a unit of that or a later Release().
// Lifetime: may be destroyed once all acquires have returned, even if the Release() that let them through has not.
//
// One word:
//   units << 2               so many are free, nobody waits
//   waiter | kSole           none is free; one waits for as long as it takes
//   the latter or 0, | kQueued    none is free; there are waiters in the queue, who came after the sole one
//
// One compare-and-swap each way while there is no waiter or a sole one: the common case where fibers hand something
// off. A released unit goes straight to the first waiter, whom nobody can overtake.
//
// Invariants
//   SE1  While kQueued is set no unit is free, and the word changes under the queue's lock only.
//   SE2  kQueued is set while the queue has a waiter (as seen by a holder of the lock).
//   SE3  Release() touches the semaphore last in its compare-and-swap or, under kQueued, in the unlock. The semaphore
//        lives until then: a waiter is still to be woken after that unlock, or to take the lock to leave.
//   SE4  A waiter enters the word only if that is 0: so it came before all that are in the queue. Whoever
//        takes it out, by a compare-and-swap or under the lock (SE1), has a unit for it, or cancels it.
#ifndef WEFT_SYNC_FIBER_SEMAPHORE_H_
#define WEFT_SYNC_FIBER_SEMAPHORE_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class FiberSemaphore {
 public:
  // The most units that there can be.
  static constexpr std::ptrdiff_t Max() noexcept { return PTRDIFF_MAX >> kUnitShift; }

  // `units`: how many are free, from 0 to Max().
  explicit FiberSemaphore(std::ptrdiff_t units) : word_(Word(units)) {
    WEFT_CHECK(units >= 0 && units <= Max(), "FiberSemaphore: bad number of units ", units);
  }
  FiberSemaphore(const FiberSemaphore&) = delete;
  FiberSemaphore& operator=(const FiberSemaphore&) = delete;
  ~FiberSemaphore() {
    // acquire: the waiter, to be named. Pairs with the release in SolePlace::Publish().
    const synchronization::SoleWaiter* sole = SoleOf(word_.load(std::memory_order_acquire));
    if (WEFT_UNLIKELY(sole != nullptr)) synchronization::FailWaitedFor("FiberSemaphore", sole->fiber());
    queue_.CheckNobodyWaits("FiberSemaphore");
  }

  // Waits for a unit, and takes it.
  void Acquire() {
    synchronization::BeginCancellationPoint();
    if (TryAcquire()) return;
    const synchronization::UnendedWait named("FiberSemaphore::Acquire()");
    synchronization::CheckInterrupted(AwaitUnit({}, synchronization::Interruptible::kYes, Reason()));
  }

  // False: no unit is free.
  [[nodiscard]] bool TryAcquire() noexcept {
    std::uintptr_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while (HasUnit(word)) {
      // acquire: what was done before the Release() of the unit. Pairs with the releases in Release(),
      // ReleaseToWaiters() and ReleaseToQueue().
      if (word_.compare_exchange_weak(word, word - Word(1), std::memory_order_acquire, std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  // False: no unit in time.
  [[nodiscard]] bool Acquire(Deadline deadline) {
    synchronization::BeginCancellationPoint();
    return TryAcquire() || AcquireInTime(deadline);
  }
  // The same; reads the clock only if it has to wait.
  template <class Rep, class Period>
  [[nodiscard]] bool Acquire(const std::chrono::duration<Rep, Period>& timeout) {
    synchronization::BeginCancellationPoint();
    return TryAcquire() || AcquireInTime(timeout);
  }

  // 0: does nothing.
  void Release(std::ptrdiff_t units = 1) noexcept {
    WEFT_CHECK(units >= 0 && units <= Max(), "FiberSemaphore::Release: bad number of units ", units);
    std::uintptr_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    while (!HasWaiter(word)) {
      WEFT_DCHECK(word + Word(units) <= Word(Max()), "FiberSemaphore::Release: more than Max() units");
      // release: what the caller did before. Pairs with the acquire in TryAcquire().
      if (word_.compare_exchange_weak(word, word + Word(units), std::memory_order_release, std::memory_order_relaxed)) {
        return;
      }
    }
    if (units != 0) ReleaseToWaiters(units);
  }

 private:
  static constexpr std::uintptr_t kQueued = 1;
  static constexpr std::uintptr_t kSole = 2;
  static constexpr int kUnitShift = 2;
  static_assert(alignof(synchronization::SoleWaiter) > (kQueued | kSole));

  static constexpr std::uintptr_t Word(std::ptrdiff_t units) noexcept {
    return static_cast<std::uintptr_t>(units) << kUnitShift;
  }
  static bool HasWaiter(std::uintptr_t word) noexcept { return (word & (kQueued | kSole)) != 0; }
  static bool HasUnit(std::uintptr_t word) noexcept { return word != 0 && !HasWaiter(word); }
  // nullptr: none.
  static synchronization::SoleWaiter* SoleOf(std::uintptr_t word) noexcept {
    return (word & kSole) != 0 ? reinterpret_cast<synchronization::SoleWaiter*>(word & ~(kQueued | kSole)) : nullptr;
  }

  friend struct synchronization::WaitAccess;
  template <class Primitive>
  friend class synchronization::QueueCase;

  // For a selection, all three; EnterShared(): false: it need not wait.
  bool TryShared() noexcept { return TryAcquire(); }
  bool EnterShared(synchronization::Waiter* waiter) noexcept;
  void LeaveShared(synchronization::Waiter* waiter) noexcept;
  synchronization::WaitResult WaitHow(Deadline deadline, synchronization::Interruptible interruptible) noexcept {
    return WaitHow(deadline, interruptible, Reason());
  }
  synchronization::WaitResult WaitHow(Deadline deadline, synchronization::Interruptible interruptible,
                                      synchronization::WaitReason reason) noexcept {
    scheduling_group::YieldIfSliceIsOver();
    return TryAcquire() ? synchronization::WaitResult::kNotified : AwaitUnit(deadline, interruptible, reason);
  }
  synchronization::WaitReason Reason() const noexcept { return {synchronization::WaitKind::kSemaphore, this}; }
  bool AcquireInTime(Deadline deadline) {
    using synchronization::Interruptible;
    return synchronization::CheckInterruptedWithResult(AwaitUnit(deadline, Interruptible::kResult, Reason())) ==
           synchronization::WaitResult::kNotified;
  }

  struct SolePlace;  // of a waiter in the word
  synchronization::WaitResult AwaitUnit(Deadline deadline, synchronization::Interruptible interruptible,
                                        synchronization::WaitReason reason) noexcept;
  synchronization::SoleWaiter::Result AcquireAsSole(synchronization::Interruptible interruptible,
                                                    synchronization::WaitReason reason) noexcept;
  synchronization::WaitResult AcquireSlow(Deadline deadline, synchronization::Interruptible interruptible,
                                          synchronization::WaitReason reason) noexcept;
  void ForgetQueueIfEmpty() noexcept WEFT_REQUIRES(queue_);
  void ReleaseToWaiters(std::ptrdiff_t units) noexcept;
  void ReleaseToQueue(std::ptrdiff_t units) noexcept;

  base::Atomic<std::uintptr_t> word_;
  synchronization::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_SEMAPHORE_H_
