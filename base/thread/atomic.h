// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// base::Atomic<T> and base::ThreadFence: std::atomic<T> and std::atomic_thread_fence, except in model tests.
//
// The concurrency protocols use these names, so that a model test can compile the same headers with -DWEFT_MODEL_CHECK
// and -DWEFT_MODEL_ATOMIC_HEADER='"..."'. That header defines, in weft::base, Atomic, Plain, the fences, and, if the
// code under test sleeps, FutexWait and FutexWake (base/thread/parker.h). It may define WEFT_MODEL_CPU_RELAX(), which
// CpuRelax() then calls.
//
// ThreadSanitizer does not see fences: use one for StoreLoad only, and put acquire and release on the operations.
//
// LightFence() and HeavyFence() are two halves of a StoreLoad barrier, for protocols in which one side runs far more
// often than the other:
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
// tests/model/litmus_test.cc (the explorer's fences) and tests/base/atomic_test.cc (the machine's).
#ifndef WEFT_BASE_THREAD_ATOMIC_H_
#define WEFT_BASE_THREAD_ATOMIC_H_

#include <atomic>

#ifdef WEFT_MODEL_CHECK
#include WEFT_MODEL_ATOMIC_HEADER
#else

namespace weft::base {

template <class T>
using Atomic = std::atomic<T>;

// Plain data that an atomic hands from one thread to another; checked for races in model tests.
template <class T>
using Plain = T;

inline void ThreadFence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }

// StoreLoad between a seq_cst read-modify-write and the loads after it: C++ does not promise it; on x86 it is free.
inline void FenceAfterReadModifyWrite() noexcept {
#if defined(__x86_64__)
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

inline void LightFence() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }

// Whether the kernel supports it. Any thread. The first call may take 10 ms if there are several threads: call early.
bool HasHeavyFence() noexcept;

// Any thread, if HasHeavyFence() was true. If the kernel refuses nevertheless (a system call filter installed later),
// it sleeps longer than any processor holds back a store, and HasHeavyFence() is false from then on.
void HeavyFence() noexcept;

}  // namespace weft::base

#endif  // WEFT_MODEL_CHECK

#endif  // WEFT_BASE_THREAD_ATOMIC_H_
