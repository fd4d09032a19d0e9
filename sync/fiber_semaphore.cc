// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_semaphore.h"

#include <mutex>

#include "weft/sync/wait/wait_queue.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::SoleWaiter;
using synchronization::Waiter;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

// Of a waiter in the word.
struct FiberSemaphore::SolePlace {
  static bool Publish(SoleWaiter* self, void* semaphore) noexcept {
    std::uintptr_t none = 0;  // SE4
    // release: the waiter. Pairs with the acquires in ReleaseToWaiters(), ReleaseToQueue() and Withdraw().
    // seq_cst: SW1.
    return static_cast<FiberSemaphore*>(semaphore)->word_.compare_exchange_strong(
        none, reinterpret_cast<std::uintptr_t>(self) | kSole, std::memory_order_seq_cst, std::memory_order_relaxed);
  }
  static bool Withdraw(SoleWaiter* self, void* semaphore) noexcept {
    auto* const that = static_cast<FiberSemaphore*>(semaphore);
    // Under the lock, for kQueued may be set (SE1). Without that bit a release may still take the waiter out.
    const std::lock_guard guard(that->queue_);
    std::uintptr_t word = that->word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    do {
      if (SoleOf(word) != self) return false;
      // acquire: that it has left its stack. Pairs with the release in Publish().
    } while (
        !that->word_.compare_exchange_weak(word, word & kQueued, std::memory_order_acquire, std::memory_order_relaxed));
    return true;
  }
};

// In the word. kNotPublished: there is a unit, or somebody waits already.
inline SoleWaiter::Result FiberSemaphore::AcquireAsSole(Interruptible interruptible, WaitReason reason) noexcept {
  if (word_.load(std::memory_order_relaxed) != 0) return SoleWaiter::Result::kNotPublished;  // Saves a switch.
  SoleWaiter waiter(this);
  return waiter.Await<SolePlace>(interruptible, reason);
}

WaitResult FiberSemaphore::AwaitUnit(Deadline deadline, Interruptible interruptible, WaitReason reason) noexcept {
  if (deadline.is_none()) {
    switch (AcquireAsSole(interruptible, reason)) {
      case SoleWaiter::Result::kNotified:
        return WaitResult::kNotified;
      case SoleWaiter::Result::kInterrupted:
        return WaitResult::kInterrupted;
      case SoleWaiter::Result::kNotPublished:
        break;
    }
  }
  return AcquireSlow(deadline, interruptible, reason);
}

WEFT_NOINLINE WaitResult FiberSemaphore::AcquireSlow(Deadline deadline, Interruptible interruptible,
                                                     WaitReason reason) noexcept {
  Waiter waiter;
  queue_.lock();
  std::uintptr_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  while ((word & kQueued) == 0) {
    const bool take = HasUnit(word);
    // acquire: a unit as in TryAcquire(); with the bit the sole waiter, whom ReleaseToQueue() takes out under the lock.
    const std::uintptr_t next = take ? word - Word(1) : word | kQueued;
    if (!word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed)) continue;
    if (!take) break;
    queue_.unlock();
    return WaitResult::kNotified;
  }
  const WaitResult result = queue_.Wait(&waiter, deadline, interruptible, reason);
  if (result != WaitResult::kNotified) {
    queue_.lock();
    ForgetQueueIfEmpty();
    queue_.unlock();
  }
  return result;
}

// SE2. With the queue's lock.
void FiberSemaphore::ForgetQueueIfEmpty() noexcept {
  // relaxed: it carries nothing; a read-modify-write, so that the sole waiter is seen with its contents.
  if (queue_.empty()) word_.fetch_and(~kQueued, std::memory_order_relaxed);
}

// Only a look: the selection, which may not take a unit before it has decided to, comes again if there is one.
bool FiberSemaphore::EnterShared(Waiter* waiter) noexcept {
  queue_.lock();
  std::uintptr_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  bool waits = (word & kQueued) != 0;
  while (!waits && !HasUnit(word)) {
    // acquire: as in AcquireSlow().
    waits = word_.compare_exchange_weak(word, word | kQueued, std::memory_order_acquire, std::memory_order_relaxed);
  }
  if (waits) queue_.EnqueueShared(waiter);
  queue_.unlock();
  return waits;
}

void FiberSemaphore::LeaveShared(Waiter* waiter) noexcept {
  queue_.lock();
  queue_.LeaveUnnotified(waiter);
  ForgetQueueIfEmpty();
  queue_.unlock();
}

WEFT_NOINLINE void FiberSemaphore::ReleaseToWaiters(std::ptrdiff_t units) noexcept {
  std::uintptr_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  do {
    if (!HasWaiter(word)) return Release(units);  // They have gone since we looked.
    if ((word & kQueued) != 0) return ReleaseToQueue(units);
    // release: as in Release(). acquire: the sole waiter. Pairs with the release in SolePlace::Publish().
  } while (!word_.compare_exchange_weak(word, Word(units - 1), std::memory_order_acq_rel,
                                        std::memory_order_relaxed));  // SE3
  SoleOf(word)->Wake();
}

void FiberSemaphore::ReleaseToQueue(std::ptrdiff_t units) noexcept {
  WaitList claimed;
  queue_.lock();
  // acquire: the sole waiter. Pairs with the release in SolePlace::Publish(). (No test can miss it: the sole waiter
  // came before kQueued (SE4), and who set that did so by an exchange that acquires, and then gave up the lock.)
  const std::uintptr_t word = word_.load(std::memory_order_acquire);
  if ((word & kQueued) == 0) {  // That changes under the lock only: those in the queue have gone since we looked.
    queue_.unlock();
    return Release(units);
  }
  SoleWaiter* sole = SoleOf(word);
  if (sole != nullptr) --units;  // SE4: it was first.
  while (units > 0) {
    Waiter* waiter = queue_.ClaimFirst();
    if (waiter == nullptr) break;
    claimed.PushBack(waiter);
    --units;
  }
  // release: as in Release(). A plain store: SE1.
  word_.store(queue_.empty() ? Word(units) : kQueued, std::memory_order_release);
  queue_.unlock();  // SE3
  if (sole != nullptr) sole->Wake();
  WakeAll(&claimed);
}

}  // namespace weft
