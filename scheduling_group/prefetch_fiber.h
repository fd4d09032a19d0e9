// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// A fiber's cache lines, asked for some fibers before it runs: they come from another core's cache or from memory
// (100 ns), and a short fiber runs for 10 to 50 ns.
//
// PrefetchFiber(): any fiber, even one that is over by now. The others: by who holds the fibers.
//
// Always inlined: GCC takes a function that only prefetches for one without effect, and drops the calls to it.
#ifndef WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_
#define WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::scheduling_group {

// nullptr is allowed, hence the arithmetic on a number.
WEFT_ALWAYS_INLINE void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const auto callable = reinterpret_cast<std::uintptr_t>(fiber) + sizeof(FiberEntity) - base::kCacheLineSize;
  __builtin_prefetch(fiber, 1);  // state, context, link
  __builtin_prefetch(reinterpret_cast<const void*>(callable), 0);
}

// What a suspended fiber reads of its stack when it goes on: from where it was left as far up as the frames of a
// shallow one go, but not beyond the stack. A fiber whose start procedure sleeps has used 540 bytes. And what the end
// of a wait writes in the fiber.
WEFT_ALWAYS_INLINE void PrefetchStack(const FiberEntity* fiber) noexcept {
  if (!fiber->has_stack()) return;
  constexpr std::size_t kBytes = 9 * base::kCacheLineSize;
  __builtin_prefetch(&fiber->current_wait, 1);
  const auto sp = reinterpret_cast<std::uintptr_t>(fiber->context.saved_stack_pointer());
  const auto end = std::min(sp + kBytes, reinterpret_cast<std::uintptr_t>(fiber->stack_top()));
  for (std::uintptr_t line = sp / base::kCacheLineSize * base::kCacheLineSize; line < end;
       line += base::kCacheLineSize) {
    __builtin_prefetch(reinterpret_cast<const void*>(line), 1);
  }
}

// All this of several fibers that the caller holds and will run one after the other. The first line of each stack goes
// before the others: a page that was long unused misses the TLB, and misses that follow each other closely are dealt
// with side by side. Of 100,000 sleepers (bench/workload --workload=sleepers) the median one was late by a quarter of
// what it was with six lines of each stack, stack by stack (before StackCache::Refill() let them fall asleep faster).
WEFT_ALWAYS_INLINE void PrefetchShare(FiberEntity* const* fibers, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) PrefetchFiber(fibers[i]);
  for (std::size_t i = 0; i < count; ++i) {
    if (fibers[i]->has_stack()) __builtin_prefetch(fibers[i]->context.saved_stack_pointer(), 1);
  }
  for (std::size_t i = 0; i < count; ++i) PrefetchStack(fibers[i]);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_
