// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitFd: parks the fiber until a descriptor is ready, whoever owns it: a client library's socket, a pipe, a timerfd.
// Sample:
//     const io::WaitFdResult ready = io::WaitFd(PQsocket(connection), POLLIN, 2s);
//     if (ready.error == std::errc::timed_out) ...
//
// Any number of fibers may wait for one descriptor, for the same or for different events. Level-triggered, as poll(2):
// events that are there already end the wait at once. A wait costs a system call; Weft's own sockets are cheaper
// (io/reactor/fd_slot.h). The caller keeps the descriptor. CloseFd() closes it while fibers wait: a plain close() wakes
// none.
//
// How it works: a descriptor has one oneshot registration with the events of all waiters. When one comes, all waiters
// are woken, and those that want another one register anew.
//
// Invariants
//   WF1  No event is missed. A waiter reads the number of events before it registers, and sleeps only if the number,
//        read under the queue's lock, is still the same. An event increments it under that lock, then claims.
//   WF2  The registration covers what all waiters want: it is made under `mutex_`, with what others have asked for
//        since the last event. If a former registration's event makes that too little, the number has changed (WF1).
//   WF3  A wait concerns the descriptor that had the number when it began: CloseFd() ends it, whatever has woken it.
//   WF4  Without waiters nothing is armed. So what the owner reads on another thread wakes no worker, and a
//        registration that a duplicate of a closed descriptor keeps is not mistaken for the number's next owner's.
// Rejected: one way of waiting with FdSlot (io/reactor/fd_slot.h), see docs/decisions/016.
#ifndef WEFT_IO_WAIT_FD_H_
#define WEFT_IO_WAIT_FD_H_

#include <poll.h>

#include <cstdint>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/sync/select/selection.h"

namespace weft::io {

// Any fiber (switches) and any thread (blocks). events: POLLIN, POLLPRI, POLLRDHUP, POLLOUT. Errors: timed_out;
// operation_canceled: CloseFd(), or it became one of Weft's own sockets, or the fiber was cancelled;
// device_or_resource_busy: it is one, and fibers of the same group have waited for that; bad_file_descriptor; others of
// the kernel.
// A file or directory is always ready.
[[nodiscard]] WaitFdResult WaitFd(int fd, short events, Deadline deadline = {});

// Any fiber and any thread. As close(2); fibers that wait for the descriptor get operation_canceled.
std::error_code CloseFd(int fd);

// Any thread, before it registers the descriptor in another way (io/reactor/fd_slot.h). Ends WaitFd()'s registration;
// fibers that still wait get operation_canceled.
void ForgetFd(int fd);

class ForeignFd;  // wait_fd.cc

namespace detail {

// WaitFd() as a case of a Select() (io/select.h). From Enter() to Leave() or Notified() it is counted as a wait (WF4).
// Another waiter's event, which wakes all, begins the selection anew.
class FdCase final : public synchronization::SelectCase {
 public:
  // Throws std::bad_alloc.
  FdCase(synchronization::Selection* selection, int fd, short events);

  bool TryTake() noexcept override;
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override;

  const WaitFdResult& result() const noexcept { return result_; }

 private:
  const int fd_;
  const std::uint32_t wanted_;
  ForeignFd* const foreign_;    // nullptr: the number is impossible
  const std::uint32_t closes_;  // when the selection began: WF3
  WaitFdResult result_;
};

}  // namespace detail

}  // namespace weft::io

#endif  // WEFT_IO_WAIT_FD_H_
