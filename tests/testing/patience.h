// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How tests wait on a machine that many share: it may keep any thread waiting for seconds.
#ifndef WEFT_TESTS_TESTING_PATIENCE_H_
#define WEFT_TESTS_TESTING_PATIENCE_H_

#include <chrono>
#include <thread>

#include "weft/base/report/build_mode.h"

namespace weft::testing {

// Each turn of two threads takes a time slice of somebody else here. As the process finds it at first.
inline bool MachineIsBusy() {
  static const bool is_busy = [] {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < 20; ++i) std::this_thread::yield();
    return std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(5);
  }();
  return is_busy;
}

// How often a race is tried: less where a sanitizer makes everything slow, or the machine is busy.
inline int Scaled(int count) {
  if (WEFT_TSAN || WEFT_ASAN) count = count / 10 + 1;
  return MachineIsBusy() ? count / 10 + 1 : count;
}

// For what must not come too late: only what hangs takes that long.
inline constexpr std::chrono::seconds kSoon{60};
// What ends within this time was not ended by a deadline of kSoon.
inline constexpr std::chrono::seconds kBeforeSoon{50};

// Calls `attempt` with longer and longer times until it says true: for tests in which somebody has to be in time. What
// is wrong is late each time. False: it was never in time.
template <class Attempt>
[[nodiscard]] bool InTime(std::chrono::milliseconds first, Attempt&& attempt) {
  for (auto time = first; time < std::chrono::seconds(10); time *= 3) {
    if (attempt(time)) return true;
  }
  return false;
}

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_PATIENCE_H_
