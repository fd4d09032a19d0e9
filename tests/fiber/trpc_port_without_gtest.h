// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// For trpc_port_test.cc: code that must compile without GoogleTest, or with few headers.
#ifndef WEFT_TESTS_FIBER_TRPC_PORT_WITHOUT_GTEST_H_
#define WEFT_TESTS_FIBER_TRPC_PORT_WITHOUT_GTEST_H_

namespace weft {

// Whether RunAsFiber ran a function in a fiber.
bool RunInAFiberWithoutGoogleTest();

// Counts to `count`, one fiber at a time under a FiberMutex, with a FiberConditionVariable.
int CountUnderALockOfTheLatchsHeader(int count);

}  // namespace weft

#endif  // WEFT_TESTS_FIBER_TRPC_PORT_WITHOUT_GTEST_H_
