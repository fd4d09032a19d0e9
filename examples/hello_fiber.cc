// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The smallest program: start the runtime, run a fiber, stop the runtime.
//
// The three calls that every program needs:
//   StartRuntime()      starts the scheduling groups' worker threads, as the flags say
//   Fiber(f), Join()           like std::thread, but a fiber costs a few KiB and under a microsecond
//   TerminateRuntime()  waits for the fibers to end, then stops the workers

#include <iostream>
#include <string>

#include "weft/weft.h"

int main() {
  weft::StartRuntime();

  std::string greeting;
  weft::Fiber hello({.name = "hello"}, [&greeting] {
    // Dumps, crash messages and the debugger call this fiber by its name.
    greeting = "Hello from fiber '" + std::string(weft::GetFiberName()) + "', which runs on a worker of group " +
               std::to_string(weft::GetCurrentSchedulingGroupIndex()) + ".";
  });
  hello.Join();  // What the fiber wrote is visible from here on.
  std::cout << greeting << "\n";

  const std::size_t unfinished = weft::TerminateRuntime();
  return greeting.starts_with("Hello from fiber 'hello'") && unfinished == 0 ? 0 : 1;
}
