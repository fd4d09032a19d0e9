// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The two system calls behind all sleeping of threads. Private futexes on a 32-bit atomic.
//
// Both are safe on memory that was freed in between: FutexWake() passes the address to the kernel and touches nothing.
// So a waiter may get wake-ups meant for a former object at its address, and must check its word again.
#ifndef WEFT_BASE_THREAD_FUTEX_H_
#define WEFT_BASE_THREAD_FUTEX_H_

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

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_FUTEX_H_
