// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// base::Atomic<T> and base::ThreadFence: std::atomic<T> and std::atomic_thread_fence, except in model tests.
//
// The concurrency protocols use these names, so that a model test can compile the same headers with -DWEFT_MODEL_CHECK
// and -DWEFT_MODEL_ATOMIC_HEADER='"..."'. That header defines, in weft::base, Atomic, Plain, the fences of this file
// and of asymmetric_fence.h, and, if the code under test sleeps, FutexWait and FutexWake (base/thread/futex.h). It may
// define WEFT_MODEL_CPU_RELAX(), which CpuRelax() then calls.
//
// ThreadSanitizer does not see fences: use one for StoreLoad only, and put acquire and release on the operations.
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

}  // namespace weft::base

#endif  // WEFT_MODEL_CHECK

#endif  // WEFT_BASE_THREAD_ATOMIC_H_
