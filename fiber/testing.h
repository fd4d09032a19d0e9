// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Helpers for the tests of programs that use fibers; for GoogleTest.
// Sample:
//   TEST(Cache, MissesOnce) {
//     weft::RunAsFiber([] { EXPECT_EQ(cache.Misses(), 1); });
//   }
//   WEFT_TEST_MAIN()        // in one file: the runtime runs for all the tests of the program
//
// EXPECT_ and ASSERT_ work in any fiber (an ASSERT_ leaves its own function only, as it always does). SCOPED_TRACE is
// kept by thread: it may not enclose anything that suspends the fiber.
#ifndef WEFT_FIBER_TESTING_H_
#define WEFT_FIBER_TESTING_H_

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <cstddef>

#include "weft/fiber/runtime.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/fiber/test_clock.h"  // IWYU pragma: export

namespace weft {

namespace fiber::testing_detail {

inline int CountFatalFailuresOfGoogleTest() {
  const ::testing::TestInfo* const test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return 0;
  int count = 0;
  for (int i = 0; i < test->result()->total_part_count(); ++i) {
    if (test->result()->GetTestPartResult(i).fatally_failed()) ++count;
  }
  return count;
}

inline const bool google_test_listens =
    (test_framework = {
         .count_fatal_failures = &CountFatalFailuresOfGoogleTest,
         .on_fatal_failure_in_fiber =
             [] { GTEST_FAIL_AT(__FILE__, __LINE__) << "RunAsFiber: a fatal failure in the fiber, see above"; },
         .on_unfinished_fibers =
             [](std::size_t count) {
               EXPECT_EQ(count, std::size_t{0}) << "fibers have not finished; the log names them";
             },
     },
     true);

}  // namespace fiber::testing_detail

// What WEFT_TEST_MAIN() does.
inline int RunAllTestsInRuntime(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  StartRuntime();
  const int result = RUN_ALL_TESTS();
  const std::size_t unfinished = TerminateRuntime();
  return result != 0 || unfinished != 0 ? 1 : 0;
}

namespace fiber {
using weft::RunAllTestsInRuntime;  // docs/from_trpc.md
}  // namespace fiber

}  // namespace weft

// The main() of a program of tests: RunAllTestsInRuntime().
#define WEFT_TEST_MAIN() \
  int main(int argc, char** argv) { return ::weft::RunAllTestsInRuntime(argc, argv); }

#endif  // WEFT_FIBER_TESTING_H_
