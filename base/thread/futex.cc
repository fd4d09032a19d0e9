// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "weft/base/report/check.h"

namespace weft::base {

namespace {

static_assert(sizeof(Atomic<std::uint32_t>) == sizeof(std::uint32_t));

timespec ToTimespec(std::chrono::steady_clock::time_point deadline) {
  using std::chrono::nanoseconds;
  using std::chrono::seconds;
  auto since_boot = deadline.time_since_epoch();
  if (since_boot < nanoseconds(0)) since_boot = nanoseconds(0);  // The kernel refuses negative times.
  auto whole = std::chrono::duration_cast<seconds>(since_boot);
  auto rest = std::chrono::duration_cast<nanoseconds>(since_boot - whole);
  return timespec{static_cast<std::time_t>(whole.count()), static_cast<long>(rest.count())};
}

}  // namespace

bool FutexWait(Atomic<std::uint32_t>* word, std::uint32_t expected,
               const std::chrono::steady_clock::time_point* deadline) noexcept {
  const int saved_errno = errno;
  // FUTEX_WAIT_BITSET: unlike FUTEX_WAIT it takes an absolute time, of CLOCK_MONOTONIC.
  timespec until{};
  if (deadline != nullptr) until = ToTimespec(*deadline);
  long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                        deadline != nullptr ? &until : nullptr, nullptr, FUTEX_BITSET_MATCH_ANY);
  const bool timed_out = result == -1 && errno == ETIMEDOUT;
  // Callers look again in all other cases, and would do so for ever.
  WEFT_CHECK(result == 0 || timed_out || errno == EAGAIN || errno == EINTR, "futex(2) fails with error ", errno);
  errno = saved_errno;
  return !timed_out;
}

int FutexWake(Atomic<std::uint32_t>* word, int n) noexcept {
  const int saved_errno = errno;
  long result = syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, nullptr, nullptr, 0);
  errno = saved_errno;
  return result > 0 ? static_cast<int>(result) : 0;
}

}  // namespace weft::base
