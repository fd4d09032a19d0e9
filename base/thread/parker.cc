// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/parker.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "weft/base/report/check.h"

namespace weft::base {

#ifndef WEFT_MODEL_CHECK

namespace {

static_assert(sizeof(Atomic<std::uint32_t>) == sizeof(std::uint32_t));

timespec ToTimespec(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  auto since_boot = deadline.time_since_epoch();
  if (since_boot < nanoseconds(0)) since_boot = nanoseconds(0);  // The kernel refuses negative times.
  auto whole = std::chrono::duration_cast<seconds>(since_boot);
  auto rest = std::chrono::duration_cast<nanoseconds>(since_boot - whole);
  return timespec{static_cast<std::time_t>(whole.count()), static_cast<long>(rest.count())};
}

}  // namespace

// These two are not inlined, also where the linker optimises: in a function that switches, the compiler would go on
// using the address of the errno of the thread on which it began.
WEFT_NOINLINE bool FutexWait(Atomic<std::uint32_t>* word, std::uint32_t expected,
                             const std::chrono::steady_clock::time_point* deadline) noexcept {
  const int saved_errno = errno;
  // FUTEX_WAIT_BITSET: unlike FUTEX_WAIT it takes an absolute time, of CLOCK_MONOTONIC.
  timespec until{};
  if (deadline != nullptr) until = ToTimespec(*deadline);
  long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                        deadline != nullptr ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  const bool timed_out = result == -1 && errno == ETIMEDOUT;
  // Callers look again in all other cases, and would do so for ever.
  WEFT_CHECK(result == 0 || timed_out || errno == EAGAIN || errno == EINTR, "futex(2) fails with error ", errno);
  errno = saved_errno;
  return !timed_out;
}

WEFT_NOINLINE int FutexWake(Atomic<std::uint32_t>* word, int n) noexcept {
  const int saved_errno = errno;
  long result = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, nullptr, nullptr, 0);
  errno = saved_errno;
  return result > 0 ? static_cast<int>(result) : 0;
}

#endif  // WEFT_MODEL_CHECK

bool Parker::TakeNotificationOrEnter(std::uint32_t asleep) noexcept {
  std::uint32_t found = kEmpty;
  // acquire (failure): we saw a notification and go on after it (PK4).  Pairs with the release in Unpark().
  // release (success): for the thread that must end our other wait (PK5).  Pairs with the acquire in Unpark().
  if (word_.compare_exchange_strong(found, asleep, std::memory_order_release, std::memory_order_acquire)) return false;
  // Only the owner leaves kNotified, but a second Unpark() may have come and is merged with the first. acquire, by an
  // exchange that reads the last one: what its caller did is visible too.
  word_.exchange(kEmpty, std::memory_order_acquire);
  return true;
}

void Parker::Park() noexcept {
  if (TakeNotificationOrEnter(kParked)) return;
  for (;;) {
    static_cast<void>(FutexWait(&word_, kParked));
    std::uint32_t found = kNotified;
    // acquire: pairs with the release in Unpark() (PK4). Failure: a signal, or another object's wake-up; sleep on.
    if (word_.compare_exchange_strong(found, kEmpty, std::memory_order_acquire, std::memory_order_relaxed)) return;
  }
}

bool Parker::ParkUntil(std::chrono::steady_clock::time_point deadline) noexcept {
  if (TakeNotificationOrEnter(kParked)) return true;
  for (;;) {
    const bool in_time = FutexWait(&word_, kParked, &deadline);
    if (!in_time) {
      // Give up, unless an Unpark() came just now. acquire: pairs with the release in Unpark() (PK4).
      return word_.exchange(kEmpty, std::memory_order_acquire) == kNotified;
    }
    std::uint32_t found = kNotified;
    // acquire: as in Park().
    if (word_.compare_exchange_strong(found, kEmpty, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
}

void Parker::Nap(std::chrono::steady_clock::time_point until) noexcept {
  // Whatever ends it, the caller goes on to Park(), which checks the word.
  static_cast<void>(FutexWait(&word_, kEmpty, &until));
}

}  // namespace weft::base
