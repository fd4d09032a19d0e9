// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The engine of input and output that a test program runs with: what the environment says (weft_run_under_io_engine()
// in cmake/WeftLayer.cmake), else the default.
#ifndef WEFT_TESTS_TESTING_IO_ENGINE_H_
#define WEFT_TESTS_TESTING_IO_ENGINE_H_

#include <gflags/gflags.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace weft::testing {

// Before the first wait for a descriptor.
inline void UseIoEngineUnderTest() {
  const char* name = std::getenv("WEFT_TEST_IO_ENGINE");
  if (name == nullptr) return;
  ASSERT_NE(gflags::SetCommandLineOption("fiber_io_engine", name), "") << "no such flag";
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_IO_ENGINE_H_
