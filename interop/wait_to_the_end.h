// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// WaitToTheEnd: a wait that nothing ends but the event, for adapters whose own stack another thread still uses (it
// holds buffers, a result, the event itself).

#ifndef WEFT_INTEROP_WAIT_TO_THE_END_H_
#define WEFT_INTEROP_WAIT_TO_THE_END_H_

#include "weft/sync/fiber_event.h"

namespace weft::interop::detail {

// Any fiber and any thread (which is blocked).  May switch.
//
// Cancellation: where FiberEvent::Wait() throws for a cancelled fiber, this is the place for the shield.
inline void WaitToTheEnd(FiberEvent& event) noexcept { event.Wait(); }

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_WAIT_TO_THE_END_H_
