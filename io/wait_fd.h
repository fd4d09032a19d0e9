// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitFd: parks the fiber until a descriptor is ready, whoever owns it: a client library's socket, a pipe, a timerfd.
// Sample:
//     const io::WaitFdResult ready = io::WaitFd(PQsocket(connection), POLLIN, 2s);
//     if (ready.error == std::errc::timed_out) ...
//
// Level-triggered, as poll(2): events that are there already end the wait at once. Any number of fibers may wait for
// one descriptor, for the same events or for different ones. The caller keeps the descriptor; while fibers may wait, it
// closes it by CloseFd(), for close() wakes none of them. A wait costs a system call; Weft's own sockets are cheaper.
// wait_fd.cc says how it works.
#ifndef WEFT_IO_WAIT_FD_H_
#define WEFT_IO_WAIT_FD_H_

#include <poll.h>

#include <cstdint>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/sync/select.h"

namespace weft::io {

// Any fiber (switches) and any thread (blocks). events: POLLIN, POLLPRI, POLLRDHUP, POLLOUT. A file or directory is
// always ready. Errors:
//   timed_out
//   operation_canceled       CloseFd() was called, or one of Weft's sockets took over the descriptor, or the fiber was
//                            cancelled
//   device_or_resource_busy  the descriptor is one of Weft's sockets, for which fibers of the same group have waited
//   bad_file_descriptor, and others of the kernel
[[nodiscard]] WaitFdResult WaitFd(int fd, short events, Deadline deadline = {});

// Any fiber and any thread. As close(2), but fibers that wait for the descriptor get operation_canceled.
std::error_code CloseFd(int fd);

// Any thread, before it registers the descriptor in another way, as Weft's own sockets do. Ends WaitFd()'s
// registration; fibers that still wait get operation_canceled.
void ForgetFd(int fd);

class ForeignFd;  // wait_fd.cc

namespace detail {

// WaitFd() as a case of a Select() (io/select_sockets.h). From Enter() to Leave() or Notified() it is counted as a wait
// (WF4). Another waiter's event, which wakes all, begins the selection anew.
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
