// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The two system calls that all sleeping of threads is made of.  Private futexes on a 32-bit atomic.
//
// Both are safe on memory that was freed in between: FutexWake() passes the address to the kernel and touches nothing.
// A waiter must therefore expect wake-ups that were meant for a former object at its address, and look at its word
// again.

#ifndef WEFT_BASE_FUTEX_H_
#define WEFT_BASE_FUTEX_H_

#include <cstdint>

#include "weft/base/atomic.h"
#include "weft/base/clocks.h"

namespace weft::base {

#ifndef WEFT_MODEL_CHECK  // The model brings its own (base/atomic.h).

// Sleeps while *word == expected.  False: the deadline (CLOCK_MONOTONIC; nullptr: none) has passed.  True: anything
// else (woken, the word had another value, a signal came): look at the word again.  Leaves errno as it was.
[[nodiscard]] bool FutexWait(Atomic<std::uint32_t>* word, std::uint32_t expected,
                             const std::chrono::steady_clock::time_point* deadline = nullptr) noexcept;

// Wakes at most `n` threads that sleep on `word`.  Returns how many.  Leaves errno as it was.
int FutexWake(Atomic<std::uint32_t>* word, int n) noexcept;

#endif  // WEFT_MODEL_CHECK

}  // namespace weft::base

#endif  // WEFT_BASE_FUTEX_H_
