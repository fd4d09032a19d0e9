// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RunAsFiber: runs a function in a fiber, with a runtime around it if there is none. testing.h adds GoogleTest's part.
// Sample:
//   weft::RunAsFiber([] { ... });
#ifndef WEFT_FIBER_START_RUN_AS_FIBER_H_
#define WEFT_FIBER_START_RUN_AS_FIBER_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>

#include "weft/base/thread/parker.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft {

namespace fiber::testing_detail {

// What a test framework wants to know. Set while no test runs.
struct TestFramework {
  // Fatal failures that the current test has seen so far.
  int (*count_fatal_failures)() = nullptr;
  // In the caller's thread: the fiber has seen a fatal failure.
  void (*on_fatal_failure_in_fiber)() = nullptr;
  // The runtime's end has left fibers behind.
  void (*on_unfinished_fibers)(std::size_t count) = nullptr;
  // In the caller's thread, now and then while it waits: ends the process if the wait never ends (observe/testing.h).
  void (*look_for_deadlock)() = nullptr;
};
inline TestFramework test_framework;

// Between two looks, on the wall; longer where looks take long (a million fibers, a slow machine).
inline constexpr std::chrono::milliseconds kLookForDeadlockEvery{100};
constexpr std::chrono::nanoseconds PauseAfterLook(std::chrono::nanoseconds took) {
  constexpr int kPausesPerLook = 10;
  return std::max<std::chrono::nanoseconds>(kLookForDeadlockEvery, kPausesPerLook * took);
}

// Returns when `ended` has been unparked. At once in the main context of a FiberLoop, which runs fibers while it joins
// one, and if nobody looks; and when another thread has ended the runtime, as Join() then says which fiber is lost.
inline void AwaitAndLookForDeadlocks(base::Parker* ended) {
  if (test_framework.look_for_deadlock == nullptr || scheduling_group::CurrentWorker() != nullptr) return;
  using Clock = std::chrono::steady_clock;
  std::chrono::nanoseconds pause = kLookForDeadlockEvery;
  while (!ended->ParkUntil(Clock::now() + pause)) {
    if (!IsRuntimeRunning() && scheduling_group::LostFibers::Any()) return;
    const Clock::time_point begin = Clock::now();
    test_framework.look_for_deadlock();
    pause = PauseAfterLook(Clock::now() - begin);
  }
}

// A runtime for as long as it lives, if there is none already.
class RuntimeInScope {
 public:
  RuntimeInScope() : started_(!IsRuntimeRunning()) {
    if (started_) StartRuntime();
  }
  ~RuntimeInScope() {
    if (!started_) return;
    const std::size_t unfinished = TerminateRuntime();  // Logs them.
    if (unfinished != 0 && test_framework.on_unfinished_fibers != nullptr) {
      test_framework.on_unfinished_fibers(unfinished);
    }
  }
  RuntimeInScope(const RuntimeInScope&) = delete;
  RuntimeInScope& operator=(const RuntimeInScope&) = delete;

 private:
  const bool started_;
};

inline int CountFatalFailures() {
  return test_framework.count_fatal_failures != nullptr ? test_framework.count_fatal_failures() : 0;
}

}  // namespace fiber::testing_detail

// Calls f() in a fiber and waits for its end; in a fiber, just calls it. Starts a runtime (from the flags) for the call
// if none runs. Throws what f throws. With testing.h, a fatal failure in f's fiber is one of the caller's thread, too,
// so that ASSERT_NO_FATAL_FAILURE(RunAsFiber(f)) and HasFatalFailure() see it; unfinished fibers of f fail the test.
template <class F>
void RunAsFiber(F&& f) {
  if (IsRunningInFiberWorker()) {
    f();
    return;
  }
  const int fatal_failures = fiber::testing_detail::CountFatalFailures();
  std::exception_ptr thrown;
  {
    const fiber::testing_detail::RuntimeInScope runtime;
    base::Parker ended;
    Fiber fiber({.name = "RunAsFiber"}, [&] {
      try {
        f();
      } catch (...) {
        thrown = std::current_exception();
      }
      static_cast<void>(ended.Unpark());
    });
    fiber::testing_detail::AwaitAndLookForDeadlocks(&ended);
    fiber.Join();
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (fiber::testing_detail::CountFatalFailures() != fatal_failures)
    fiber::testing_detail::test_framework.on_fatal_failure_in_fiber();
}

// While one lives every start of a fiber, from anywhere, is refused, for tests. Needs no runtime.
// Sample:
//   weft::RefuseFiberStarts refuse;  if (StartFiberDetached([] { ... })) std::abort();  // it says false
class RefuseFiberStarts {
 public:
  RefuseFiberStarts() { fiber::detail::ForbidStarts(); }
  ~RefuseFiberStarts() { fiber::detail::AllowStarts(); }
  RefuseFiberStarts(const RefuseFiberStarts&) = delete;
  RefuseFiberStarts& operator=(const RefuseFiberStarts&) = delete;
};

namespace fiber {  // docs/from_trpc.md
using weft::RefuseFiberStarts;
using weft::RunAsFiber;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_START_RUN_AS_FIBER_H_
