// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A handler for std::terminate() that writes in which fiber it happened, and why: the exception's type and what(), or
// that the fiber's thread was to be ended (pthread_exit, pthread_cancel). Then it calls the former handler, still on
// the stack of the throw. A handler that the program sets after the runtime's first start replaces this one.
#ifndef WEFT_FIBER_RUNTIME_TERMINATE_HANDLER_H_
#define WEFT_FIBER_RUNTIME_TERMINATE_HANDLER_H_

namespace weft::fiber::detail {

// Once per process.
void InstallTerminateHandler();

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_TERMINATE_HANDLER_H_
