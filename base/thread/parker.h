// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Parker: one thread sleeps until it is unparked. An Unpark() that comes earlier is kept; further ones merge with it.
//
//      kEmpty  --Park-->  kParked       the owner sleeps on the word
//      kEmpty, kParked, kNotified  --Unpark-->  kNotified
//      kNotified  --Park returns-->  kEmpty
//      kEmpty  --BeginWaitElsewhere-->  kElsewhere     the owner sleeps in another way, e.g. in epoll_wait()
//      kElsewhere  --Unpark says true-->  kNotified    the caller must end that sleep
//      kElsewhere, kNotified  --EndWaitElsewhere-->  kEmpty
//      kParked  --Expire-->  kExpired  --ParkUntilExpired returns-->  kEmpty
//      kExpired  --Unpark-->  kNotified                the owner is on its way
//
// Invariants
//   PK1  An Unpark() after the last return of Park() makes the next Park() return without sleeping, or wakes it.  Both
//        sides change the word by one read-modify-write, so one of them sees the other.
//   PK2  Unpark() enters the kernel only if the owner may sleep there.
//   PK5  EndWaitElsewhere() reports any Unpark() since BeginWaitElsewhere(). The first one returns true: its caller
//        sees what the owner did before BeginWaitElsewhere() and must interrupt the other wait. The interrupt may come
//        before that wait begins (it must still end it) or after it has ended (it must be harmless).
//   PK3  Unpark()'s last access to the object is the exchange.  What follows is a wake on its address, harmless if the
//        object is gone: the owner may destroy the Parker as soon as Park() has returned for the last Unpark().
//   PK4  What was done before Unpark() is visible after the Park() that it ended.
//   PK6  An Expire() while the owner is in ParkUntilExpired() ends it, and takes no Unpark() from it: the word leaves
//        kParked once, and whoever finds kExpired leaves the waking to Expire().
// Unpark(): any thread.  Expire(), is_parked(), waits_elsewhere(): a thread that keeps the Parker alive.  The others:
// the owner, one thread at a time.
//
// FutexWait() and FutexWake() are the two system calls behind all sleeping of threads: private futexes on a 32-bit
// atomic. Both are safe on memory that was freed in between: FutexWake() passes the address to the kernel and touches
// nothing. So a waiter may get wake-ups meant for a former object at its address, and must check its word again.
//
// Rejected: std::counting_semaphore (libstdc++ spins, and shares a table of waiters); pthread condition variables (two
// more atomic operations, and the waker touches the object after the waiter may have gone on).
#ifndef WEFT_BASE_THREAD_PARKER_H_
#define WEFT_BASE_THREAD_PARKER_H_

#include <cstdint>

#include "weft/base/thread/atomic.h"
#include "weft/base/time/clock.h"

namespace weft::base {

#ifndef WEFT_MODEL_CHECK  // The model brings its own (base/thread/atomic.h).

// Sleeps while *word == expected. False: the deadline (CLOCK_MONOTONIC; nullptr: none) has passed. True: anything else
// (woken, another value, a signal): check the word again. Preserves errno.
[[nodiscard]] bool FutexWait(Atomic<std::uint32_t>* word, std::uint32_t expected,
                             const std::chrono::steady_clock::time_point* deadline = nullptr) noexcept;

// Wakes at most `n` threads that sleep on `word`. Returns how many. Preserves errno.
int FutexWake(Atomic<std::uint32_t>* word, int n) noexcept;

#endif  // WEFT_MODEL_CHECK

class Parker {
 public:
  Parker() = default;
  Parker(const Parker&) = delete;
  Parker& operator=(const Parker&) = delete;

  // Sleeps until an Unpark() that no earlier Park() has taken.
  void Park() noexcept;

  // The same until the deadline.  False: it passed, and there was no Unpark().
  [[nodiscard]] bool ParkUntil(std::chrono::steady_clock::time_point deadline) noexcept;

  // The same, but Expire() takes the place of the deadline. Unless an Unpark() has come, calls parked() before it
  // sleeps: from then on Expire() ends it.
  template <class Parked>
  [[nodiscard]] bool ParkUntilExpired(Parked&& parked) noexcept {
    if (TakeNotificationOrEnter(kParked)) return true;
    parked();
    // relaxed: the exchange below has the order.
    while (word_.load(std::memory_order_relaxed) == kParked) static_cast<void>(FutexWait(&word_, kParked));
    // acquire: pairs with the release in Unpark() (PK4).
    return word_.exchange(kEmpty, std::memory_order_acquire) == kNotified;
  }

  // Ends the owner's ParkUntilExpired(). False: it is not in one, or has been woken.
  bool Expire() noexcept {
    std::uint32_t parked = kParked;
    // relaxed: it carries nothing but that the time has come.
    if (!word_.compare_exchange_strong(parked, kExpired, std::memory_order_relaxed)) return false;
    FutexWake(&word_, 1);
    return true;
  }

  // Snapshots: the owner sleeps here; elsewhere; and nothing has ended that.
  bool is_parked() const noexcept { return word_.load(std::memory_order_relaxed) == kParked; }
  bool waits_elsewhere() const noexcept { return word_.load(std::memory_order_relaxed) == kElsewhere; }

  // Sleeps until `until` unless an Unpark() has come before. A later one does not end the nap, and its caller stays out
  // of the kernel (PK2): it is kept for the next Park().
  void Nap(std::chrono::steady_clock::time_point until) noexcept;

  // True: the owner waits elsewhere, and the caller must end that wait (PK5).
  bool Unpark() noexcept {
    // release: publishes what the caller did (PK4).  Pairs with the acquire in Park(), ParkUntil(), EndWaitElsewhere().
    // acquire: a caller that gets true sees what the owner did (PK5).  Pairs with BeginWaitElsewhere().
    const std::uint32_t found = word_.exchange(kNotified, std::memory_order_acq_rel);
    if (found == kParked) FutexWake(&word_, 1);
    return found == kElsewhere;
  }

  // False: an Unpark() had come; it is consumed.  True: EndWaitElsewhere() must follow.
  [[nodiscard]] bool BeginWaitElsewhere() noexcept { return !TakeNotificationOrEnter(kElsewhere); }
  bool EndWaitElsewhere() noexcept {
    // acquire: pairs with the release in Unpark() (PK4).
    return word_.exchange(kEmpty, std::memory_order_acquire) == kNotified;
  }

 private:
  static constexpr std::uint32_t kEmpty = 0;
  static constexpr std::uint32_t kParked = 1;
  static constexpr std::uint32_t kNotified = 2;
  static constexpr std::uint32_t kElsewhere = 3;
  static constexpr std::uint32_t kExpired = 4;

  // True: it was kNotified, and is kEmpty now.  False: it was kEmpty, and is `asleep`.
  bool TakeNotificationOrEnter(std::uint32_t asleep) noexcept;

  Atomic<std::uint32_t> word_{kEmpty};
};

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_PARKER_H_
