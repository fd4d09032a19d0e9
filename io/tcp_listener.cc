// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_listener.h"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "weft/base/log.h"
#include "weft/io/descriptor_calls.h"
#include "weft/io/socket.h"
#include "weft/sync/wait_access.h"

namespace weft::io {

using synchronization::Interruptible;
using synchronization::WaitAccess;
using synchronization::WaitResult;
namespace {

constexpr int kMultipathTcp = 262;  // IPPROTO_MPTCP, which older headers do not have

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

// A pause follows so many aborted connections in a row: a system call filter may fail every call in this way, and
// nothing else would end the loop.
constexpr unsigned kGonePerPause = 64;

// accept(2): these errors concern the connection, not us.
bool ConnectionIsGone(int error) {
  switch (error) {
    case ECONNABORTED:
    case ENETDOWN:
    case EPROTO:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case EPERM:  // A firewall.
      return true;
    default:
      return false;
  }
}

bool OutOfResources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

std::error_code TcpListener::Listen(const SocketAddress& address, const Options& options) {
  Descriptor socket;
  if (std::error_code error = OpenSocket(address.family(), SOCK_STREAM, &socket)) return error;
  const int fd = socket.fd();
  if (!address.is_unix()) {
    // The connections inherit it.
    if (std::error_code error = SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1)) return error;
    if (std::error_code error = SetOption(fd, SOL_SOCKET, SO_REUSEADDR, 1)) return error;
  }
  if (options.reuse_port) {
    if (std::error_code error = SetOption(fd, SOL_SOCKET, SO_REUSEPORT, 1)) return error;
  }
  if (::bind(fd, address.data(), address.size()) != 0 || ::listen(fd, options.backlog) != 0) return ErrnoCode(errno);
  descriptor_ = std::move(socket);
  closed_ = std::make_unique<FiberEvent>();
  return {};
}

std::error_code TcpListener::CheckAdoptable(int fd) {
  int type = 0;
  int family = 0;
  int listens = 0;
  for (const auto& [option, value] : {std::pair{SO_TYPE, &type}, {SO_DOMAIN, &family}, {SO_ACCEPTCONN, &listens}}) {
    socklen_t size = sizeof(*value);
    if (::getsockopt(fd, SOL_SOCKET, option, value, &size) != 0) return ErrnoCode(errno);
  }
  if (type != SOCK_STREAM) return std::make_error_code(std::errc::wrong_protocol_type);
  if (family != AF_INET && family != AF_INET6 && family != AF_UNIX) return ErrnoCode(EAFNOSUPPORT);
  if (family != AF_UNIX) {
    int protocol = 0;
    socklen_t size = sizeof(protocol);
    if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return ErrnoCode(errno);
    // Others (SCTP) keep the borders of messages, and a read may end there: see Descriptor::ExpectShortReads().
    if (protocol != IPPROTO_TCP && protocol != kMultipathTcp) return ErrnoCode(EPROTONOSUPPORT);
  }
  return listens != 0 ? std::error_code() : std::make_error_code(std::errc::invalid_argument);
}

std::error_code TcpListener::Adopt(int fd) {
  if (std::error_code error = CheckAdoptable(fd)) return error;
  const int fd_flags = ::fcntl(fd, F_GETFD);
  if (fd_flags < 0 || ::fcntl(fd, F_SETFD, fd_flags | FD_CLOEXEC) != 0) return ErrnoCode(errno);
  // The connections inherit it. A Unix socket does not have it.
  (void)SetOption(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  descriptor_ = Descriptor(fd);
  closed_ = std::make_unique<FiberEvent>();
  return {};
}

std::error_code TcpListener::Accept(TcpStream* stream, Deadline deadline) {
  std::chrono::milliseconds pause = kFirstPause;
  unsigned gone = 0;
  for (;;) {
    const auto accept = [](int fd) -> ssize_t { return ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); };
    const IoResult accepted = descriptor_.RetryRead(0, accept, deadline);
    if (accepted.ok()) {
      *stream = TcpStream(Descriptor(static_cast<int>(accepted.bytes)));
      return {};
    }
    if (ConnectionIsGone(accepted.error.value())) {
      if (++gone % kGonePerPause != 0) continue;
    } else if (OutOfResources(accepted.error.value())) {
      WEFT_LOG_EVERY_SECOND(WARNING, "TcpListener: a connection to ", local_address().ToString(),
                            " has to wait: ", accepted.error.message(),
                            "; raise the limit (ulimit -n, fs.file-max), or serve fewer connections");
    } else {
      return accepted.error;
    }
    // As all of io/: closed or cancelled is an error, and does not throw.
    const WaitResult paused = WaitAccess::Wait(*closed_, std::min(deadline, Deadline(pause)), Interruptible::kYes);
    if (paused != WaitResult::kTimedOut) return ErrnoCode(ECANCELED);
    if (deadline.expired()) return ErrnoCode(ETIMEDOUT);
    pause = std::min(pause * 2, kLongestPause);
  }
}

std::error_code TcpListener::SetKeepAlive(const TcpKeepAlive& keep_alive) {
  return io::SetKeepAlive(&descriptor_, keep_alive);
}

std::error_code TcpListener::SetUserTimeout(std::chrono::milliseconds timeout) {
  return io::SetUserTimeout(&descriptor_, timeout);
}

bool TcpListener::Close() {
  if (!descriptor_.Close()) return false;
  closed_->Set();
  return true;
}

SocketAddress TcpListener::local_address() const { return LocalAddress(descriptor_); }

}  // namespace weft::io
