// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// What the layers below call back in the fiber layer: the end of a fiber's locals and execution context, the
// description of a fiber in messages, what a forked child does first.
//
// For runtime.cc and fiber_loop.cc.

#ifndef WEFT_FIBER_RUNTIME_HOOKS_H_
#define WEFT_FIBER_RUNTIME_HOOKS_H_

namespace weft::fiber::detail {

// Once, before the first fiber (RT4 in runtime.cc). `after_fork_in_child` is async-signal-safe.
void InstallRuntimeHooks(void (*after_fork_in_child)());

// The same, if nobody did (runtime.cc). Any thread.
void EnsureRuntimeHooks();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_HOOKS_H_
