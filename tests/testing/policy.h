// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The scheduling policy that the fixtures ask for: v1, or what the environment says. The same program is run again for
// another policy (weft_run_under_policy() in cmake/WeftLayer.cmake), which costs no build.
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
