// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The Weft of the process, in libweft_hook.so (fiber_calls.h).
#ifndef WEFT_INTEROP_HOOK_ATTACHED_H_
#define WEFT_INTEROP_HOOK_ATTACHED_H_

#include <atomic>

#include "weft/interop/hook/fiber_calls.h"

namespace weft::hook {

// nullptr: none has attached. release when written: what it points to. Pairs with the acquires.
extern constinit std::atomic<const FiberCalls*> fiber_calls;

// After InHookedFiber() said true.
inline const FiberCalls& Fibers() noexcept { return *fiber_calls.load(std::memory_order_acquire); }

inline bool InHookedFiber() noexcept {
  const FiberCalls* const calls = fiber_calls.load(std::memory_order_acquire);
  return calls != nullptr && calls->may_park();
}

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_ATTACHED_H_
