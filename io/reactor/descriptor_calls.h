// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The system calls of a Descriptor: RetryRead(), RetryWrite() and Once(). Apart from descriptor.h, so that users' files
// need not include FdSlot and all that it needs.
#ifndef WEFT_IO_REACTOR_DESCRIPTOR_CALLS_H_
#define WEFT_IO_REACTOR_DESCRIPTOR_CALLS_H_

#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/scheduling_group/worker/time_slice.h"

namespace weft::io {

namespace descriptor_internal {

struct CallResult {
  ssize_t result;
  int error;
};
// A function of its own, so that errno is that of the thread that made the call (context/switch_safe_errno.h).
template <class Call>
WEFT_NOINLINE CallResult CallOnce(int fd, Call& call) {
  const ssize_t result = call(fd);
  return {result, result < 0 ? errno : 0};
}

template <class Call>
IoResult RetryInUse(FdSlot* slot, FdSlot::Direction direction, std::size_t full, Call& call, Deadline deadline) {
  bool timed_out = false;
  int timeouts = 0;
  for (;;) {
    const FdSlot::Ticket ticket = slot->TicketOf(direction);
    if (ticket.closed()) return {0, ErrnoCode(ECANCELED)};
    // After a time-out ask the kernel once more: the reactor may not have reported the latest events yet.
    if (timed_out || slot->WorthATry(direction, ticket)) {
      const auto [result, error] = CallOnce(slot->fd(), call);
      if (result >= 0) [[likely]] {
        const auto bytes = static_cast<std::size_t>(result);
        if (bytes < full && bytes != 0 && direction == FdSlot::kRead) slot->ClearReadinessAfterShortRead(ticket);
        if (timed_out && direction == FdSlot::kWrite) slot->NoteRoomWithoutEvent();
        slot->Succeeded(direction);
        return {bytes, {}};
      }
      if (error == EINTR) continue;
      if (error != EAGAIN && error != EWOULDBLOCK) return {0, ErrnoCode(error)};
      slot->ClearReadiness(direction, ticket);
      if (timed_out && ++timeouts == FdSlot::TimeoutsOf(direction, deadline)) return {0, ErrnoCode(ETIMEDOUT)};
    }
    const std::error_code error = slot->Wait(direction, deadline);
    timed_out = error.value() == ETIMEDOUT;
    if (error && !timed_out) return {0, error};
    if (!timed_out) timeouts = 0;  // An event: the limit begins anew.
  }
}

template <class Call>
IoResult Retry(FdSlot* slot, FdSlot::Direction direction, std::size_t full, Call& call, Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  if (slot == nullptr || !slot->BeginUse()) return {0, ErrnoCode(ECANCELED)};
  const IoResult result = RetryInUse(slot, direction, full, call, deadline);
  slot->EndUse();
  return result;
}

}  // namespace descriptor_internal

template <class Call>
IoResult Descriptor::RetryRead(std::size_t full, Call&& call, Deadline deadline) {
  return descriptor_internal::Retry(slot_, FdSlot::kRead, full, call, deadline);
}

template <class Call>
IoResult Descriptor::RetryWrite(Call&& call, Deadline deadline) {
  return descriptor_internal::Retry(slot_, FdSlot::kWrite, 0, call, deadline);
}

template <class Call>
std::error_code Descriptor::Once(Call&& call) const {
  FdSlot* const slot = slot_;
  if (slot == nullptr || !slot->BeginUse()) return ErrnoCode(ECANCELED);
  const auto [result, error] = descriptor_internal::CallOnce(slot->fd(), call);
  slot->EndUse();
  return result >= 0 ? std::error_code() : ErrnoCode(error);
}

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_DESCRIPTOR_CALLS_H_
