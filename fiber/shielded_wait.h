// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// WaitShielded: a wait that goes on to its end, because what its caller owns would outlive the caller otherwise. For
// destructors.
//
// Any fiber, any thread. Switches (a thread: blocks) as `wait` does.

#ifndef WEFT_FIBER_SHIELDED_WAIT_H_
#define WEFT_FIBER_SHIELDED_WAIT_H_

namespace weft::fiber::detail {

// The one place that shields such waits from cancellation. No wait can be cancelled yet, so there is nothing to do.
template <class Wait>
void WaitShielded(Wait&& wait) {
  wait();
}

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_SHIELDED_WAIT_H_
