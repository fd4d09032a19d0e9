// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitFd: parks the fiber until a descriptor is ready, whoever owns it: a client library's socket, a pipe, a timerfd.
// Sample:
//     const io::WaitFdResult ready = io::WaitFd(PQsocket(connection), POLLIN, 2s);
//     if (ready.error == std::errc::timed_out) ...
//
// Any number of fibers may wait for one descriptor, for the same or for other events; each is told what it asked for.
// Level-triggered, as poll(2): what is ready already is told at once; a wait costs a system call. Weft's own sockets
// are cheaper (io/fd_slot.h).
// The descriptor stays the caller's. Who closes it while somebody waits uses CloseFd(): a plain close() leaves the
// waiters to their deadlines.
//
// How it works: one oneshot registration per descriptor with all events that somebody wants; when one comes, all
// waiters are woken, and those that wanted another register anew.
//
// Invariants
//   WF1  No event is missed: a waiter reads the number of events before it registers, and sleeps only if it is the same
//        afterwards, under the queue's lock; an event counts under that lock, then claims.
//   WF2  The registration covers what all waiters want: it is made under `mutex`, with what others have wanted since
//        the last event. An event of a former registration makes that too little, but then the number has changed
//        (WF1).
//   WF3  A wait is about the descriptor that had the number when it began: CloseFd() ends it, even if it has just been
//        woken for what others wanted.
//   WF4  While nobody waits nothing is armed. What its owner reads on another thread wakes nobody, and a registration
//        that a duplicate of a closed descriptor keeps alive is not taken for the next one's with the number.
// Rejected: one way of waiting with FdSlot (io/fd_slot.h), see docs/decisions/016. They share Registration
// (io/reactor.h).
#ifndef WEFT_IO_WAIT_FD_H_
#define WEFT_IO_WAIT_FD_H_

#include <poll.h>

#include <system_error>

#include "weft/base/deadline.h"

namespace weft::io {

struct WaitFdResult {
  short events = 0;  // of those asked for, and POLLERR, POLLHUP; 0: an error
  std::error_code error;
};

// Any fiber (switches) and any thread (blocks). events: POLLIN, POLLPRI, POLLRDHUP, POLLOUT. Errors: timed_out;
// operation_canceled: CloseFd(), or it became one of Weft's own sockets, or the fiber was cancelled;
// device_or_resource_busy: it is one, and fibers have waited for that; bad_file_descriptor; others of the kernel.
// A file or directory is always ready.
[[nodiscard]] WaitFdResult WaitFd(int fd, short events, Deadline deadline = {});

// Any fiber and any thread: closes it, and fibers that wait for it get operation_canceled. As close(2) otherwise.
std::error_code CloseFd(int fd);

// By who registers it otherwise (io/fd_slot.h), any thread: it may have been waited for before. Who waits for it still
// gets operation_canceled.
void ForgetFd(int fd);

}  // namespace weft::io

#endif  // WEFT_IO_WAIT_FD_H_
