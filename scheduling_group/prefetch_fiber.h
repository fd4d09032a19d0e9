// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A fiber's cache lines, asked for some fibers before it runs: they come from another core's cache or from memory
// (100 ns), and a short fiber runs for 10 to 50 ns.
//
// PrefetchFiber(): any fiber, even one that is over by now. PrefetchStack(): by who holds the fiber.
#ifndef WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_
#define WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/cpu.h"
#include "weft/scheduling_group/fiber_entity.h"

namespace weft::scheduling_group {

// nullptr is allowed, hence the arithmetic on a number.
inline void PrefetchFiber(const FiberEntity* fiber) noexcept {
  const auto callable = reinterpret_cast<std::uintptr_t>(fiber) + sizeof(FiberEntity) - base::kCacheLineSize;
  __builtin_prefetch(fiber, 1);  // state, context, link
  __builtin_prefetch(reinterpret_cast<const void*>(callable), 0);
}

// The top of a suspended fiber's stack, which the switch to it reads first, as far as the frames from there to the
// user's own go: a sleeping fiber's are 400 bytes. And what an end of a wait writes in the fiber. A page that was long
// unused misses the TLB too.
inline void PrefetchStack(const FiberEntity* fiber) noexcept {
  if (!fiber->started()) return;
  constexpr std::size_t kLines = 6;
  __builtin_prefetch(&fiber->current_wait, 1);
  const char* top = static_cast<const char*>(fiber->context.saved_stack_pointer());
  for (std::size_t line = 0; line < kLines; ++line) __builtin_prefetch(top + line * base::kCacheLineSize, 1);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_PREFETCH_FIBER_H_
