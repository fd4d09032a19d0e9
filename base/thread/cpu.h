// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the code needs to know of the processor and the compiler: size of a cache line, pause, attributes.
//
// A fiber may resume on another thread, but a compiler takes the address of a thread_local for constant within a
// function. So each thread_local is read through a function in a .cc file marked WEFT_TLS_ACCESSOR, neither inlined nor
// analysed: g++ would find it "const" and merge two calls on both sides of a switch, with LTO even across files.
#ifndef WEFT_BASE_THREAD_CPU_H_
#define WEFT_BASE_THREAD_CPU_H_

#include <cstddef>

#include "weft/base/report/build_mode.h"

#define WEFT_NOINLINE __attribute__((noinline))
#define WEFT_COLD __attribute__((cold))
#define WEFT_ALWAYS_INLINE inline __attribute__((always_inline))
#define WEFT_LIKELY(x) __builtin_expect(!!(x), 1)
#define WEFT_UNLIKELY(x) __builtin_expect(!!(x), 0)

// clang has no noipa: there base::OpaqueBarrier() in the function's body keeps it from being taken for pure.
#if defined(__clang__)
#define WEFT_TLS_ACCESSOR __attribute__((noinline))
#else
#define WEFT_TLS_ACCESSOR __attribute__((noinline, noipa))
#endif

namespace weft::base {

// For x86-64 and today's aarch64. std::hardware_destructive_interference_size would make our ABI depend on -mtune.
inline constexpr std::size_t kCacheLineSize = 64;

// One turn of a spin loop. About 40 ns on x86 since Skylake, 5 ns before. A model test may override it
// (base/thread/atomic.h).
WEFT_ALWAYS_INLINE void CpuRelax() noexcept {
#if defined(WEFT_MODEL_CPU_RELAX)
  WEFT_MODEL_CPU_RELAX();
#elif defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // yield is a no-op on most cores.
#endif
}

// Fetches the line for writing: a load followed by a compare-and-swap then costs one transfer, not two. Any address.
WEFT_ALWAYS_INLINE void PrefetchForWrite(const volatile void* address) noexcept {
#if defined(__x86_64__)
  // __builtin_prefetch asks to read only, unless told of a newer CPU; one that has no PREFETCHW takes it as a no-op.
  asm volatile("prefetchw (%0)" ::"r"(address));
#else
  __builtin_prefetch(const_cast<const void*>(address), 1);
#endif
}

// The compiler cannot see through it: for WEFT_TLS_ACCESSOR.
WEFT_ALWAYS_INLINE void OpaqueBarrier() noexcept { asm volatile("" ::: "memory"); }

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_CPU_H_
