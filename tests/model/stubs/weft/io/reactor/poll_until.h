// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces io/reactor/poll_until.h in model tests: the scenario is the kernel. No plain thread waits there.
#ifndef WEFT_IO_REACTOR_POLL_UNTIL_H_
#define WEFT_IO_REACTOR_POLL_UNTIL_H_

#include <poll.h>

#include <cerrno>

#include "weft/base/deadline.h"
#include "weft/tests/testing/interleave.h"

namespace weft::io {

bool IsReadableNow(int fd) noexcept;

// For one descriptor: whether it is ready now.
inline int PollUntil(pollfd* polled, nfds_t count, Deadline) noexcept {
  if (count != 1) model::Fail("a plain thread waits for a descriptor");
  if (!IsReadableNow(polled->fd)) return 0;
  polled->revents = polled->events;
  return 1;
}

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_POLL_UNTIL_H_
