// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions of the fiber layer that lower layers call: they end a fiber's locals and execution context, describe a
// fiber in messages, and prepare a forked child. For runtime.cc and loop_core.cc.
//
// And a handler for std::terminate() that writes in which fiber it happened, and why: the exception's type and what(),
// or that the fiber's thread was to be ended (pthread_exit, pthread_cancel). Then it calls the former handler, still on
// the stack of the throw. A handler that the program sets after the runtime's first start replaces this one.
#ifndef WEFT_FIBER_RUNTIME_RUNTIME_HOOKS_H_
#define WEFT_FIBER_RUNTIME_RUNTIME_HOOKS_H_

namespace weft::fiber::detail {

// Once, before the first fiber (RT4 in runtime.cc). `after_fork_in_child` is async-signal-safe.
void InstallRuntimeHooks(void (*after_fork_in_child)());

// The same, if nobody did (runtime.cc). Any thread.
void EnsureRuntimeHooks();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_RUNTIME_HOOKS_H_
