// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Prefetches a fiber's cache lines some fibers before it runs: a miss takes 100 ns, a short fiber 10 to 50.
//
// PrefetchFiber(): any fiber, even one that has ended. The others: the holder of the fibers.
// Always inlined: GCC takes a function that only prefetches for one without effect, and drops calls to it.
#ifndef WEFT_SCHEDULING_GROUP_QUEUE_PREFETCH_FIBER_H_
#define WEFT_SCHEDULING_GROUP_QUEUE_PREFETCH_FIBER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::scheduling_group {

// nullptr is allowed, hence the integer arithmetic.
WEFT_ALWAYS_INLINE void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const auto callable = reinterpret_cast<std::uintptr_t>(fiber) + sizeof(FiberEntity) - base::kCacheLineSize;
  __builtin_prefetch(fiber, 1);  // state, context, link
  __builtin_prefetch(reinterpret_cast<const void*>(callable), 0);
}

// Prefetches what a suspended fiber reads when it goes on: its stack from the stack pointer up, as far as a shallow
// one's frames go (540 bytes where the start procedure sleeps), and the field that the end of a wait writes.
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

// Prefetches several fibers that the caller will run one after the other. The first line of each stack goes before the
// others: a page long unused misses the TLB, and misses close to each other overlap (docs/decisions/006).
WEFT_ALWAYS_INLINE void PrefetchShare(FiberEntity* const* fibers, std::size_t count) noexcept {
  for (std::size_t i = 0; i < count; ++i) PrefetchFiber(fibers[i]);
  for (std::size_t i = 0; i < count; ++i) {
    if (fibers[i]->has_stack()) __builtin_prefetch(fibers[i]->context.saved_stack_pointer(), 1);
  }
  for (std::size_t i = 0; i < count; ++i) PrefetchStack(fibers[i]);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_QUEUE_PREFETCH_FIBER_H_
