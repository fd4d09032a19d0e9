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

#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"

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

}  // namespace weft::io

#endif  // WEFT_IO_WAIT_FD_H_
