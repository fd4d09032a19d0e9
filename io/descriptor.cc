// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/descriptor.h"

#include <poll.h>

#include "weft/io/poll_until.h"

namespace weft::io {
namespace {

bool IsReadyNow(int fd, FdSlot::Direction direction) {
  pollfd polled{};
  polled.fd = fd;
  polled.events = direction == FdSlot::kRead ? POLLIN | POLLRDHUP : POLLOUT;
  return PollUntil(&polled, 1, std::chrono::seconds(0)) > 0;
}

}  // namespace

std::error_code Descriptor::WaitReady(FdSlot::Direction direction, Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  std::error_code error;
  if (!slot->TicketOf(direction).ready() || !slot->IsRegistered(direction)) error = slot->Wait(direction, deadline);
  // The reactor may not have reported the latest events: as in RetryInUse(), the kernel has the last word.
  if (error.value() == ETIMEDOUT && IsReadyNow(slot->fd(), direction)) error = {};
  if (slot->TicketOf(direction).closed()) error = ErrnoCode(ECANCELED);
  slot->EndUse();
  return error;
}

}  // namespace weft::io
