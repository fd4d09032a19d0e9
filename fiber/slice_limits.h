// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What happens when a fiber runs for long without suspending, and so keeps its worker from other fibers: it computes,
// or calls something that blocks its thread, without FiberYield() or FiberBlocking().
//
//   --fiber_slice_warning_ms   a line in the log that names the fiber, at most one a second
//   --fiber_slice_error_ms     a line of severity ERROR, once for each such run, and a call of the hook below
//
// Both are off by default. They are times on the wall, noticed up to 20 ms late by a thread that looks at the workers a
// hundred times a second, and tells of one late fiber each time. Without limits workers pay nothing; with one, a call
// for each switch, and a lock that they share for each end of a fiber. FiberLoops have the limits of the runtime that
// runs when they are made. A fiber that yields has not run for long, even if nobody else was ready. A worker that waits
// for a CPU counts as running its fiber: others wait for it just the same.
#ifndef WEFT_FIBER_SLICE_LIMITS_H_
#define WEFT_FIBER_SLICE_LIMITS_H_

#include <utility>

#include "weft/scheduling_group/watch/slice_limits.h"

namespace weft {

// The fiber's id and name, where it runs, and for how long at least; scheduling_group/watch/slice_limits.h has the
// fields.
using LongSlice = scheduling_group::LongSlice;

// Called as hook(const LongSlice&) when a fiber passes the error limit, after the log line. It runs on the thread that
// watches the slices, and delays it; it may use what plain threads may, but not start or end a runtime, nor make a
// FiberLoop. nullptr: none. Any thread; a call of the former hook may be under way when this returns.
template <class Hook>
void SetSliceErrorHook(Hook&& hook) {
  scheduling_group::SliceLimits::SetHook(std::forward<Hook>(hook));
}

namespace fiber {  // docs/from_trpc.md
using weft::LongSlice;
using weft::SetSliceErrorHook;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_SLICE_LIMITS_H_
