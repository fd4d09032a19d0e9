// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// fiber/testing.h, with deadlocks: while RunAsFiber() waits for its fiber it looks for them, and a test whose fibers
// are all asleep (deadlock.h), or some of which wait for each other's mutexes in a circle, fails instead of hanging:
// with a report. As these fibers cannot end, the program ends, too, as Go's do.
// Sample:
//   TEST(Queue, Drains) {
//     weft::RunAsFiber([] { ... });
//   }
//   WEFT_TEST_MAIN()
//
// Not looked at: a RunAsFiber() that a fiber, or the main context of a FiberLoop, calls; deadlocks under
// ThreadSanitizer, but for the circles. In a program with several test files, one of them includes this.
#ifndef WEFT_OBSERVE_TESTING_H_
#define WEFT_OBSERVE_TESTING_H_

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "weft/fiber/testing.h"  // IWYU pragma: export
#include "weft/observe/deadlock.h"

namespace weft::observe::testing_detail {

inline const bool looks_for_deadlocks = (
    fiber::testing_detail::test_framework.look_for_deadlock =
        [] {
          const std::string report = DeadlockFinder::FindDeadEnd();
          if (report.empty()) return;
          ADD_FAILURE() << "RunAsFiber: fibers wait for ever: see stderr";
          std::fprintf(stderr, "RunAsFiber: fibers wait for ever\n%s", report.c_str());
          std::abort();
        },
    true);

}  // namespace weft::observe::testing_detail

#endif  // WEFT_OBSERVE_TESTING_H_
