// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// More cases for Select() (sync/select.h): a socket or a descriptor is ready.
// Sample:
//   Select(io::OnReadable(client, [&](std::error_code error) { if (!error) Forward(client, server); }),
//          io::OnReadable(server, [&](std::error_code error) { if (!error) Forward(server, client); }),
//          OnGet(commands, [&](ChannelItem<Command> command) { Obey(*command); }),
//          OnDeadline(30s, [&] { client.Close(); }));
//
//   OnReadable(socket, f)   TcpStream: bytes, the end or an error; TcpListener: a connection; UdpSocket: a datagram
//   OnWritable(socket, f)   TcpStream, UdpSocket: the kernel has room, or there is an error
//                           f(std::error_code): none, and the next call does not wait; operation_canceled: the socket
//                           is closed; others of the kernel
//   OnFd(fd, events, f)     a descriptor of others is ready: f(WaitFdResult), as io::WaitFd() (io/wait_fd.h) returns it
//
// f may be left out. Nothing is read or written: if several fibers read one socket, the next call may wait after all.
//
// Who may call: a fiber; several may select the same socket. In a plain thread a case that would have to wait is taken
// with operation_not_supported. Cancellation: as that of Select(), which throws; it is no error of a case.
// Memory ordering: as poll(2). Errors: throws std::bad_alloc. Lifetime: the socket stays, and is not moved, until
// Select() returns. Its Close(), and CloseFd(fd), end the case with operation_canceled. After a plain close(fd) the
// case may wait for ever.
// Cost: a poll(2) that does not wait where a hint says "ready". OnFd(): always one; to wait, an epoll_ctl(2) or two.
#ifndef WEFT_IO_SELECT_H_
#define WEFT_IO_SELECT_H_

#include <functional>
#include <utility>

#include "weft/io/io_result.h"
#include "weft/io/select/fd_case.h"
#include "weft/io/select/select_case.h"
#include "weft/sync/select.h"

namespace weft::io {

namespace detail {

template <class F>
struct OnSlotSpec {
  using Case = SlotCase;
  Case MakeCase(synchronization::Selection* selection) const { return Case(selection, slot, wanted); }
  void Then(Case& object) { std::invoke(then, object.error()); }
  FdSlot* slot;
  Readiness wanted;
  F then;
};
template <class F>
struct OnFdSpec {
  using Case = FdCase;
  Case MakeCase(synchronization::Selection* selection) const { return Case(selection, fd, events); }
  void Then(Case& object) { std::invoke(then, object.result()); }
  int fd;
  short events;
  F then;
};

}  // namespace detail

template <class F = synchronization::DoNothing>
auto OnReadable(TcpStream& stream, F then = {}) {
  return detail::OnSlotSpec<F>{SelectAccess::SlotOf(stream), Readiness::kReadable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnReadable(TcpListener& listener, F then = {}) {
  return detail::OnSlotSpec<F>{SelectAccess::SlotOf(listener), Readiness::kReadable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnReadable(UdpSocket& socket, F then = {}) {
  return detail::OnSlotSpec<F>{SelectAccess::SlotOf(socket), Readiness::kReadable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnWritable(TcpStream& stream, F then = {}) {
  return detail::OnSlotSpec<F>{SelectAccess::SlotOf(stream), Readiness::kWritable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnWritable(UdpSocket& socket, F then = {}) {
  return detail::OnSlotSpec<F>{SelectAccess::SlotOf(socket), Readiness::kWritable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnFd(int fd, short events, F then = {}) {
  return detail::OnFdSpec<F>{fd, events, std::move(then)};
}

}  // namespace weft::io

#endif  // WEFT_IO_SELECT_H_
