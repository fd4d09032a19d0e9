// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollUntil: poll(2) with a deadline, for plain threads. Blocks the thread; with a deadline that has passed it only
// looks. The kernel waits by the machine's time, also where there is a test clock (fiber/test_clock.h).
#ifndef WEFT_IO_REACTOR_POLL_UNTIL_H_
#define WEFT_IO_REACTOR_POLL_UNTIL_H_

#include <poll.h>
#include <time.h>

#include <cerrno>
#include <chrono>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/base/time/clock.h"

namespace weft::io {

// Returns how many are ready; 0: the deadline has passed; below 0: minus an errno, but not EINTR.
inline int PollUntil(pollfd* polled, nfds_t count, Deadline deadline) noexcept {
  using Clock = std::chrono::steady_clock;
  if (!deadline.is_none() && base::HasTestTime()) deadline = Deadline::After(deadline.remaining(), Clock::now());
  for (;;) {
    const std::chrono::nanoseconds wait = deadline.remaining(Clock::now());
    timespec left{};
    left.tv_sec = wait / std::chrono::seconds(1);
    left.tv_nsec = (wait % std::chrono::seconds(1)).count();
    const int ready = ::ppoll(polled, count, deadline.is_none() ? nullptr : &left, nullptr);
    if (ready > 0) return ready;
    if (ready < 0 && errno != EINTR) return -errno;
    if (deadline.expired(Clock::now())) return 0;
  }
}

// Whether poll(2) says that a read would not wait: bytes, the end or an error; also of a number that cannot be polled,
// whose read says so. POLLERR alone is an error queue (recvmsg(2)), which a read leaves; a stream's end is POLLIN, too.
inline bool IsReadableNow(int fd) noexcept {
  pollfd polled{.fd = fd, .events = POLLIN | POLLRDHUP, .revents = 0};
  return PollUntil(&polled, 1, std::chrono::seconds(0)) != 0 && polled.revents != POLLERR;
}

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_POLL_UNTIL_H_
