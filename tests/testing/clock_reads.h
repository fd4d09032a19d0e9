// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Counts how often the calling thread reads the monotonic clock, std::chrono::steady_clock's. For one source file of a
// program: clock_gettime() as it is defined here takes the place of the C library's.
#ifndef WEFT_TESTS_TESTING_CLOCK_READS_H_
#define WEFT_TESTS_TESTING_CLOCK_READS_H_

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace weft::testing {

inline thread_local int clock_reads = 0;

// Of `f()`.
template <class F>
int ClockReadsOf(F&& f) {
  clock_reads = 0;
  f();
  return clock_reads;
}

}  // namespace weft::testing

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock == CLOCK_MONOTONIC) ++weft::testing::clock_reads;
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}

#endif  // WEFT_TESTS_TESTING_CLOCK_READS_H_
