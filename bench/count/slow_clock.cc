// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A library to preload: CLOCK_MONOTONIC advances by the process's CPU time, divided by WEFT_SLOW_CLOCK. Under
// callgrind, which slows a program by about as much, clock-driven work then happens about as often per operation as at
// full speed, even on a busy machine. Not for programs that wait for a time: the kernel's clock is not slowed down.

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (clock != CLOCK_MONOTONIC) return static_cast<int>(syscall(SYS_clock_gettime, clock, time));
  if (syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, time) != 0) return -1;
  static const char* const text = std::getenv("WEFT_SLOW_CLOCK");
  static const std::int64_t factor = text != nullptr && std::atoll(text) > 0 ? std::atoll(text) : 1;
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::int64_t slowed = kSecond + (time->tv_sec * kSecond + time->tv_nsec) / factor;  // Never 0.
  time->tv_sec = slowed / kSecond;
  time->tv_nsec = slowed % kSecond;
  return 0;
}
