// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests whose fibers never end: they run in a child process.
#ifndef WEFT_TESTS_OBSERVE_IN_CHILD_H_
#define WEFT_TESTS_OBSERVE_IN_CHILD_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "testing/function_ref.h"

namespace weft::observe {

// The end of what runs in a child: nothing is destroyed.
[[noreturn]] inline void LeaveChild() { ::_exit(::testing::Test::HasFailure() ? 1 : 0); }

// Calls f, which ends by LeaveChild(). No runtime may run. Failures in the child are shown, and are one of the
// caller's.
inline void InChild(testing::FunctionRef f) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    f();
    std::abort();
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "in the child, see above";
}

}  // namespace weft::observe

#endif  // WEFT_TESTS_OBSERVE_IN_CHILD_H_
