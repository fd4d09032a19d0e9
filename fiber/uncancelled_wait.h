// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// AwaitUncancelled: the wait for somebody who still refers to the caller's stack. It must not end early for any reason:
// futures and collect.h wait so before they leave, whether they return or an exception takes them away.
//
// This is the one place where these waits are shielded from cancellation. A FiberEvent's plain Wait() cannot be
// interrupted, so nothing more is needed; where Wait() becomes a cancellation point, the shield stands here.
#ifndef WEFT_FIBER_UNCANCELLED_WAIT_H_
#define WEFT_FIBER_UNCANCELLED_WAIT_H_

#include "weft/sync/fiber_event.h"

namespace weft::fiber::detail {

// Any fiber and any thread; switches (a thread: blocks). What was done before event.Set() is visible on return.
inline void AwaitUncancelled(FiberEvent& event) noexcept { event.Wait(); }

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_UNCANCELLED_WAIT_H_
