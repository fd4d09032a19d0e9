// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program with a fiber in each state, for weft_gdb_test.py: gdb stops in ReadyForDebugger(), while they are so.
//   weft_gdb_program [crash|locks]
// With `crash` the fiber that runs writes to nowhere, and the process dies. With `locks` more fibers wait: for a mutex,
// for another fiber, and for each other.

#include <sys/prctl.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

#include "testing/policy.h"

// By these the test names the fibers.
volatile std::uint64_t parked_id;
volatile std::uint64_t running_id;
volatile std::uint64_t ready_id;

namespace {

std::atomic<bool> ready_fiber_is_left{false};
std::atomic<bool> debugger_was_here{false};
std::atomic<bool> must_crash{false};
weft::FiberEvent end;

}  // namespace

WEFT_NOINLINE int Twice(int number) { return 2 * number; }

volatile int visits = 0;
WEFT_NOINLINE void ReadyForDebugger() { visits = visits + 1; }

WEFT_NOINLINE void WaitDeep(int depth) {
  volatile int marker = 100 * depth + 7;
  if (depth == 0) {
    end.Wait();
  } else {
    WaitDeep(depth - 1);
  }
  if (marker != 100 * depth + 7) std::puts("a variable has changed");
}

WEFT_NOINLINE void Crash(volatile int* nowhere) { *nowhere = 1; }

WEFT_NOINLINE void Spin() {
  volatile int turns = 0;
  ready_fiber_is_left = true;
  while (!debugger_was_here) {
    turns = turns + 1;
    if (must_crash) Crash(nullptr);
  }
}

WEFT_NOINLINE void StartSpinnerAndYield() {
  weft::Fiber({.name = "runs"}, [] {
    running_id = weft::GetFiberId();
    Spin();
  }).Detach();
  while (!ready_fiber_is_left) weft::FiberYield();
}

weft::FiberMutex owned;
weft::FiberMutex left_first;
weft::FiberMutex right_first;
std::atomic<bool> right_has_its_first{false};
std::atomic<bool> all_wait{false};

// They never end.
void StartFibersThatWaitForLocks() {
  static weft::Fiber owner({.name = "owner"}, [] {
    const std::scoped_lock lock(owned);
    end.Wait();
  });
  for (const char* name : {"first", "second"}) {
    weft::Fiber({.name = name}, [] { const std::scoped_lock lock(owned); }).Detach();
  }
  weft::Fiber({.name = "joiner"}, [] { owner.Join(); }).Detach();
  weft::Fiber({.name = "left"}, [] {
    const std::scoped_lock lock(left_first);
    while (!right_has_its_first) weft::FiberYield();
    all_wait = true;
    right_first.lock();
  }).Detach();
  weft::Fiber({.name = "right"}, [] {
    const std::scoped_lock lock(right_first);
    right_has_its_first = true;
    left_first.lock();
  }).Detach();
  while (!all_wait) {
  }
}

int main(int argc, char** argv) {
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);  // gdb may attach where only parents may (Yama).
  weft::RuntimeOptions options;
  options.groups = "web:1";
  options.scheduling_name = weft::testing::PolicyUnderTest();
  weft::StartRuntime(options);
  // One worker: when a fiber runs, those before it have left their stacks.
  const bool with_locks = argc > 1 && std::strcmp(argv[1], "locks") == 0;
  if (with_locks) StartFibersThatWaitForLocks();
  weft::Fiber parked({.name = "waits for the end"}, [] {
    parked_id = weft::GetFiberId();
    WaitDeep(3);
  });
  weft::Fiber unnamed([] { end.Wait(); });
  while (parked_id == 0) {
  }
  weft::Fiber ready({.name = "yields"}, [] {
    ready_id = weft::GetFiberId();
    StartSpinnerAndYield();
  });
  while (!ready_fiber_is_left) {
  }
  weft::Fiber late({.name = "has not begun"}, [] {});
  if (argc > 1 && std::strcmp(argv[1], "crash") == 0) {
    must_crash = true;
    ready.Join();
  }
  ReadyForDebugger();
  if (with_locks) std::_Exit(0);
  debugger_was_here = true;
  end.Set();
  late.Join();
  ready.Join();
  unnamed.Join();
  parked.Join();
  std::puts("it ended well");
  return weft::TerminateRuntime() == 0 ? 0 : 3;
}
