// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The scheduling policy of the fixtures: v1, or what the environment says. weft_run_under_policy()
// (cmake/WeftLayer.cmake) runs the same program again for another policy, without another build.
#ifndef WEFT_TESTS_TESTING_POLICY_H_
#define WEFT_TESTS_TESTING_POLICY_H_

#include <cstdlib>
#include <string>

namespace weft::testing {

inline std::string PolicyUnderTest() {
  const char* name = std::getenv("WEFT_TEST_POLICY");
  return name != nullptr ? name : "v1";
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_POLICY_H_
