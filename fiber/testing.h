// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Helpers for the tests of programs that use fibers; for GoogleTest.
// Sample:
//   TEST(Cache, MissesOnce) {
//     weft::testing::RunAsFiber([] { EXPECT_EQ(cache.Misses(), 1); });
//   }
//   WEFT_TEST_MAIN()        // in one file: the runtime runs for all the tests of the program
//
// EXPECT_ and ASSERT_ work in any fiber (an ASSERT_ leaves its own function only, as it always does).  SCOPED_TRACE is
// kept by thread: it may not enclose anything that suspends the fiber.

#ifndef WEFT_FIBER_TESTING_H_
#define WEFT_FIBER_TESTING_H_

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/start_fiber.h"
#include "weft/fiber/this_fiber.h"

namespace weft::testing {

namespace detail {

// A runtime for as long as it lives, if there is none already.
class RuntimeInScope {
 public:
  RuntimeInScope() : started_(!fiber::IsRuntimeRunning()) {
    if (started_) fiber::StartRuntime();
  }
  ~RuntimeInScope() {
    if (!started_) return;
    const std::size_t left_behind = fiber::TerminateRuntime();
    EXPECT_EQ(left_behind, std::size_t{0}) << "fibers were left behind; the log names them";
  }
  RuntimeInScope(const RuntimeInScope&) = delete;
  RuntimeInScope& operator=(const RuntimeInScope&) = delete;

 private:
  const bool started_;
};

// Fatal failures that the current test has seen so far.
inline int CountFatalFailures() {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return 0;
  int count = 0;
  for (int i = 0; i < test->result()->total_part_count(); ++i) {
    if (test->result()->GetTestPartResult(i).fatally_failed()) ++count;
  }
  return count;
}

}  // namespace detail

// Calls f() in a fiber and waits for its end; in a fiber already, calls it there.  Starts a runtime (from the flags)
// for the call if none runs.  An exception of f is thrown on to the caller.  A fatal failure in f's fiber becomes one
// of the caller's thread too, so that ASSERT_NO_FATAL_FAILURE(RunAsFiber(f)) and HasFatalFailure() see it.
template <class F>
void RunAsFiber(F&& f) {
  if (IsRunningInFiberWorker()) {
    f();
    return;
  }
  const int fatal_failures = detail::CountFatalFailures();
  std::exception_ptr thrown;
  {
    const detail::RuntimeInScope runtime;
    Fiber({.name = "RunAsFiber"}, [&] {
      try {
        f();
      } catch (...) {
        thrown = std::current_exception();
      }
    }).Join();
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
  if (detail::CountFatalFailures() != fatal_failures) {
    [] { GTEST_FAIL_AT(__FILE__, __LINE__) << "RunAsFiber: a fatal failure in the fiber, see above"; }();
  }
}

// While one lives, every start of a fiber, from anywhere, is refused: to test what a program does then.
//
//   { RefuseFiberStarts refuse;  EXPECT_FALSE(server.Accept()); }
class RefuseFiberStarts {
 public:
  RefuseFiberStarts() { fiber::detail::ForbidStarts(); }
  ~RefuseFiberStarts() { fiber::detail::AllowStarts(); }
  RefuseFiberStarts(const RefuseFiberStarts&) = delete;
  RefuseFiberStarts& operator=(const RefuseFiberStarts&) = delete;
};

// What WEFT_TEST_MAIN() does.
inline int RunAllTestsInRuntime(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  fiber::StartRuntime();
  const int result = RUN_ALL_TESTS();
  const std::size_t left_behind = fiber::TerminateRuntime();
  return result != 0 || left_behind != 0 ? 1 : 0;
}

}  // namespace weft::testing

namespace weft::fiber {

using testing::RunAsFiber;

}  // namespace weft::fiber

#define WEFT_TEST_MAIN() \
  int main(int argc, char** argv) { return ::weft::testing::RunAllTestsInRuntime(argc, argv); }

#endif  // WEFT_FIBER_TESTING_H_
