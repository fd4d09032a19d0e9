// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The engine of input and output that a test program runs with: what the environment says (weft_run_under_io_engine()
// in cmake/WeftLayer.cmake), else the default.
#ifndef WEFT_TESTS_TESTING_IO_ENGINE_H_
#define WEFT_TESTS_TESTING_IO_ENGINE_H_

#include <cstdlib>
#include <string>

namespace weft::testing {

inline std::string IoEngineUnderTest() {
  const char* name = std::getenv("WEFT_TEST_IO_ENGINE");
  return name != nullptr ? name : "epoll";
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_IO_ENGINE_H_
