// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/parker.h"

namespace weft::base {

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
