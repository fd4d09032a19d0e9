// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Two halves of a StoreLoad barrier, for protocols in which one side runs far more often than the other:
//
//   often                                rarely
//   -----                                ------
//   store x                              store y
//   LightFence()                         HeavyFence()
//   load y                               load x
//
// At least one load sees the other side's store. LightFence() only stops the compiler from reordering. HeavyFence()
// makes the kernel run a full fence on every CPU that runs a thread of this process (switched-out threads have run
// one). If another thread's access comes before that fence, we see it; if it comes after, it sees our earlier stores.
//
// HeavyFence() interrupts each of these CPUs: one to five microseconds with two, more with many, or with virtual ones
// that the host has stopped. Not for paths that run more than a thousand times a second.
//
// Source: membarrier(2); Dice, Huang, Yang, "Asymmetric Dekker Synchronization" (2001). Checked in
// tests/model/litmus_test.cc (the explorer's fences) and tests/base/asymmetric_fence_test.cc (the machine's).
#ifndef WEFT_BASE_THREAD_ASYMMETRIC_FENCE_H_
#define WEFT_BASE_THREAD_ASYMMETRIC_FENCE_H_

#include <atomic>

#include "weft/base/thread/atomic.h"

#ifndef WEFT_MODEL_CHECK  // Else WEFT_MODEL_ATOMIC_HEADER has them (atomic.h).

namespace weft::base {

inline void LightFence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Whether the kernel supports it. Any thread. The first call may take 10 ms if there are several threads: call early.
bool HasHeavyFence() noexcept;

// Any thread, if HasHeavyFence() was true. If the kernel refuses nevertheless (a system call filter installed later),
// it sleeps longer than any processor holds back a store, and HasHeavyFence() is false from then on.
void HeavyFence() noexcept;

}  // namespace weft::base

#endif  // WEFT_MODEL_CHECK

#endif  // WEFT_BASE_THREAD_ASYMMETRIC_FENCE_H_
