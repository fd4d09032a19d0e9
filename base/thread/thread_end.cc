// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/thread_end.h"

#include "weft/base/thread/pin_library.h"

namespace weft::base {

bool ThreadEnd::Arm(void* argument) noexcept {
  static_assert(sizeof(pthread_key_t) == sizeof(std::uint32_t));
  // relaxed, all: a key is a number that carries nothing else.
  std::uint32_t key = key_.load(std::memory_order_relaxed);
  if (key == kNoKey) {
    PinThisLibrary();  // The function must be there when threads end.
    pthread_key_t made;
    if (::pthread_key_create(&made, function_) != 0) return false;
    if (key_.compare_exchange_strong(key, made, std::memory_order_relaxed)) {
      key = made;
    } else {
      ::pthread_key_delete(made);  // Another thread was faster; no thread has armed ours.
    }
  }
  return ::pthread_setspecific(key, argument) == 0;
}

}  // namespace weft::base
