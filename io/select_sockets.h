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
//
// Invariants
//   SCA1  Between Enter() and Leave() or Notified() the case of a socket uses its slot (BeginUse()), so the number is
//         not closed.
//   SCA2  It clears the hint with the ticket taken before poll(2) said "not ready" (FD1): a later event leaves it.
#ifndef WEFT_IO_SELECT_SOCKETS_H_
#define WEFT_IO_SELECT_SOCKETS_H_

#include <cstdint>
#include <functional>
#include <system_error>
#include <utility>

#include "weft/io/io_result.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/udp_socket.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/select.h"

namespace weft::io {

class FdSlot;

namespace detail {

// The slots of sockets; nullptr: it was never open.
struct SelectAccess {
  static FdSlot* SlotOf(const TcpStream& stream) noexcept { return stream.descriptor_.slot_; }
  static FdSlot* SlotOf(const TcpListener& listener) noexcept { return listener.descriptor_.slot_; }
  static FdSlot* SlotOf(const UdpSocket& socket) noexcept { return socket.descriptor_.slot_; }
};

enum class Readiness : std::uint8_t { kReadable, kWritable };

// A socket of Weft as a case. An event is a hint (io/reactor/registration.h), and more than one may read. So the case
// is taken only when poll(2) says that it is ready, and a notification that turns out to be none begins the selection
// anew.
class SlotCase final : public synchronization::SelectCase {
 public:
  // nullptr: it was never open.
  SlotCase(synchronization::Selection* selection, FdSlot* slot, Readiness wanted) noexcept
      : SelectCase(selection), slot_(slot), wanted_(wanted) {}

  bool TryTake() noexcept override;
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override;

  std::error_code error() const noexcept { return error_; }

 private:
  bool IsReadyInUse() noexcept;
  bool EnterInUse() noexcept;

  FdSlot* const slot_;
  const Readiness wanted_;
  bool has_waited_ = false;  // The latest event may not have been reported yet: the kernel has the last word.
  std::error_code error_;
};

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

// A case for Select(): the stream has bytes, the end or an error; then(std::error_code).
template <class F = synchronization::DoNothing>
auto OnReadable(TcpStream& stream, F then = {}) {
  return detail::OnSlotSpec<F>{detail::SelectAccess::SlotOf(stream), detail::Readiness::kReadable, std::move(then)};
}
// A case for Select(): a connection can be accepted; then(std::error_code).
template <class F = synchronization::DoNothing>
auto OnReadable(TcpListener& listener, F then = {}) {
  return detail::OnSlotSpec<F>{detail::SelectAccess::SlotOf(listener), detail::Readiness::kReadable, std::move(then)};
}
// A case for Select(): a datagram has come; then(std::error_code).
template <class F = synchronization::DoNothing>
auto OnReadable(UdpSocket& socket, F then = {}) {
  return detail::OnSlotSpec<F>{detail::SelectAccess::SlotOf(socket), detail::Readiness::kReadable, std::move(then)};
}
// A case for Select(): the kernel has room, or there is an error; then(std::error_code).
template <class F = synchronization::DoNothing>
auto OnWritable(TcpStream& stream, F then = {}) {
  return detail::OnSlotSpec<F>{detail::SelectAccess::SlotOf(stream), detail::Readiness::kWritable, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnWritable(UdpSocket& socket, F then = {}) {
  return detail::OnSlotSpec<F>{detail::SelectAccess::SlotOf(socket), detail::Readiness::kWritable, std::move(then)};
}
// A case for Select(): the descriptor, which is not Weft's, has one of the `events` of poll(2); then(WaitFdResult).
template <class F = synchronization::DoNothing>
auto OnFd(int fd, short events, F then = {}) {
  return detail::OnFdSpec<F>{fd, events, std::move(then)};
}

}  // namespace weft::io

#endif  // WEFT_IO_SELECT_SOCKETS_H_
