// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberLoopOptions: what a FiberLoop (fiber_loop.h) is made from.
// Sample:
//   FiberLoop loop({.name = "clients", .on_exception = [](std::exception_ptr thrown) { ... }});
#ifndef WEFT_FIBER_FIBER_LOOP_OPTIONS_H_
#define WEFT_FIBER_FIBER_LOOP_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>

namespace weft {

struct FiberLoopOptions {
  // What messages call the loop.
  std::string name = {};

  // Of each fiber, as those of FiberAttributes. 0: 128 KiB, and a guard of 64 KiB.
  std::size_t stack_size = 0;
  std::size_t stack_guard_size = 0;

  // How much is used is looked at for each N-th stack that the loop makes ready for a fiber
  // (FiberLoop::StackHighWater()). It writes and reads the whole stack. 0: never.
  std::size_t record_stack_every = 0;

  // RunReady() returns after so long, once the fiber that runs waits, yields or ends. 0: when nothing is ready.
  std::chrono::nanoseconds longest_run = std::chrono::milliseconds(10);

  // Called in the fiber of a task that an exception has left; the task is over then. None: the exception ends the
  // process, as everywhere. What leaves the handler ends it, too.
  std::function<void(std::exception_ptr)> on_exception = {};
};

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_LOOP_OPTIONS_H_
