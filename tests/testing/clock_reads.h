// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Counts the calling thread's reads of the monotonic clock, std::chrono::steady_clock's, or stops that clock. For one
// source file of a program: its clock_gettime() replaces the C library's.
#ifndef WEFT_TESTS_TESTING_CLOCK_READS_H_
#define WEFT_TESTS_TESTING_CLOCK_READS_H_

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace weft::testing {

inline thread_local int clock_reads = 0;
inline thread_local const timespec* clock_stands_at = nullptr;

// Of `f()`.
template <class F>
int ClockReadsOf(F&& f) {
  clock_reads = 0;
  f();
  return clock_reads;
}

// While one lives the calling thread's monotonic clock stands still.
class ClockStandsStill {
 public:
  ClockStandsStill() {
    ::syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &time_);
    clock_stands_at = &time_;
  }
  ~ClockStandsStill() { clock_stands_at = nullptr; }
  ClockStandsStill(const ClockStandsStill&) = delete;
  ClockStandsStill& operator=(const ClockStandsStill&) = delete;

 private:
  timespec time_{};
};

}  // namespace weft::testing

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock == CLOCK_MONOTONIC) {
    ++weft::testing::clock_reads;
    if (weft::testing::clock_stands_at != nullptr) {
      *time = *weft::testing::clock_stands_at;
      return 0;
    }
  }
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}

#endif  // WEFT_TESTS_TESTING_CLOCK_READS_H_
