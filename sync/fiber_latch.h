// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberLatch: a counter that goes down to zero once, then lets all waiters through. As std::latch, with timed waits.
//
// Who may call: any fiber and any thread. Wait*() may switch (a thread: block) and are cancellation points; CountDown()
// and TryWait() never do.
// Memory ordering: what X did before its CountDown() is visible to Y after Wait() has returned, or TryWait() or a timed
// wait has said true, for every CountDown() that led to zero.
// Lifetime: may be destroyed once all waits have returned (or TryWait() said true), even during the last CountDown().
// Counting down below zero ends the process.
//
// One word: the count and, in the lowest bit, whether somebody waits.
//
// Invariants
//   LA1  A CountDown() that does not find {what it subtracts, waiters} touches the latch no more after its fetch_sub.
//   LA2  The latch is open when the word is 0. {0, waiters} is not open yet: the last CountDown() is about to take the
//        queue's lock, to let the waiters through, and to open it; its last touch is the unlock. A waiter that sees
//        it open returns only after that unlock (WaitQueue::AwaitQuiet).
//   LA3  A waiter enters the queue under the lock, having set the waiters' bit by a compare-and-swap that found the
//        count above zero or the bit set already: so the last CountDown() will look into the queue after it.
//
// It takes a cache line of its own. Often it is a local variable of the fiber that spawns the others: beside what each
// spawn writes, `spawn` of bench/workload took 176 ns a fiber, otherwise 126.
#ifndef WEFT_SYNC_FIBER_LATCH_H_
#define WEFT_SYNC_FIBER_LATCH_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_condition_variable.h"  // Not needed here: who includes tRPC-Cpp's fiber_latch.h gets both.
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

class FiberLatch {
 public:
  // Opens after `count`, 0 or more, is counted down; 0: it is open.
  explicit FiberLatch(std::ptrdiff_t count) : word_(static_cast<std::uint64_t>(count) << kCountShift) {
    WEFT_CHECK(count >= 0 && count <= kMaxCount, "FiberLatch: bad count ", count);
  }
  FiberLatch(const FiberLatch&) = delete;
  FiberLatch& operator=(const FiberLatch&) = delete;
  ~FiberLatch() { queue_.CheckNobodyWaits("FiberLatch"); }

  // Counts down by `n`; below zero ends the process. The one that comes to zero lets all waiters through. Never
  // switches.
  void CountDown(std::ptrdiff_t n = 1) noexcept {
    const std::uint64_t minus = static_cast<std::uint64_t>(n) << kCountShift;
    // release: what the caller did before. acquire: the last one hands on what all others did, also where it does so by
    // the queue's lock and not by this word. Pairs with the acquire in TryWait() and with each other.
    const std::uint64_t old = word_.fetch_sub(minus, std::memory_order_acq_rel);
    if (WEFT_UNLIKELY(n < 0 || old < minus)) FailBelowZero(n, old);
    if (WEFT_UNLIKELY(old - minus == kWaiters && n != 0)) OpenSlow();
  }

  // True: the count is zero. May still say false while the last CountDown() has not returned.
  [[nodiscard]] bool TryWait() const noexcept {
    // acquire: what was done before each CountDown(); they are one release sequence. Pairs with the release there, and
    // in OpenSlow().
    if (word_.load(std::memory_order_acquire) != 0) return false;
    queue_.AwaitQuiet();  // LA2
    return true;
  }

  // Waits until it is open.
  void Wait() const {
    synchronization::BeginCancellationPoint();
    if (TryWait()) return;
    const synchronization::UnendedWait named("FiberLatch::Wait()");
    synchronization::CheckInterrupted(WaitSlow({}, synchronization::Interruptible::kYes));
  }

  // False: not open in time.
  [[nodiscard]] bool Wait(Deadline deadline) const {
    synchronization::BeginCancellationPoint();
    using synchronization::Interruptible;
    return TryWait() || synchronization::CheckInterruptedWithResult(WaitSlow(deadline, Interruptible::kResult)) ==
                            synchronization::WaitResult::kNotified;
  }

  // What was counted down stays so, also if the wait is cancelled or late.
  void ArriveAndWait(std::ptrdiff_t n = 1) {
    CountDown(n);
    Wait();
  }
  // False: not open in time.
  [[nodiscard]] bool ArriveAndWait(std::ptrdiff_t n, Deadline deadline) {
    CountDown(n);
    return Wait(deadline);
  }

  // The same with tRPC-Cpp's names.
  template <class Rep, class Period>
  bool WaitFor(const std::chrono::duration<Rep, Period>& timeout) const {
    return Wait(timeout);
  }
  bool WaitUntil(Deadline deadline) const { return Wait(deadline); }

 private:
  // Out of line, so that CountDown() is short enough to be inlined.
  [[noreturn]] static void FailBelowZero(std::ptrdiff_t n, std::uint64_t word) noexcept;

  static constexpr std::uint64_t kWaiters = 1;
  static constexpr int kCountShift = 1;
  static constexpr std::ptrdiff_t kMaxCount = PTRDIFF_MAX >> 1;

  friend struct synchronization::WaitAccess;
  template <class Primitive>
  friend class synchronization::QueueCase;

  // For a selection, all three; EnterShared(): false: it need not wait.
  bool TryShared() const noexcept { return TryWait(); }
  bool EnterShared(synchronization::Waiter* waiter) const noexcept;
  void LeaveShared(synchronization::Waiter* waiter) const noexcept;
  synchronization::WaitResult WaitHow(Deadline deadline, synchronization::Interruptible interruptible) const noexcept {
    scheduling_group::YieldIfSliceIsOver();
    return TryWait() ? synchronization::WaitResult::kNotified : WaitSlow(deadline, interruptible);
  }

  bool MarkWaiters() const noexcept WEFT_REQUIRES(queue_);
  void OpenSlow() noexcept;
  synchronization::WaitResult WaitSlow(Deadline deadline, synchronization::Interruptible interruptible) const noexcept;

  // mutable: Wait() is const, as in std::latch.
  alignas(base::kCacheLineSize) mutable base::Atomic<std::uint64_t> word_;
  mutable synchronization::WaitQueue queue_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_LATCH_H_
