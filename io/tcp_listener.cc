// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_listener.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {

using synchronization::Interruptible;
using synchronization::WaitAccess;
using synchronization::WaitResult;
namespace {

constexpr int kMultipathTcp = 262;  // IPPROTO_MPTCP, which older headers do not have

constexpr std::chrono::milliseconds kFirstPause{1};
constexpr std::chrono::milliseconds kLongestPause{50};

// A pause follows so many aborted connections in a row, since a system call filter may fail every call in this way.
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

int PassSyns(int fd) {
  const int ignored = 0;
  return ::setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &ignored, sizeof(ignored));
}

bool OutOfResources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

TcpListener::TcpListener() = default;
TcpListener::TcpListener(TcpListener&& other) noexcept = default;

TcpListener& TcpListener::operator=(TcpListener&& other) noexcept {
  if (this == &other) return *this;
  RemoveFile();
  descriptor_ = std::move(other.descriptor_);
  file_ = std::move(other.file_);
  closed_ = std::move(other.closed_);
  shared_ = other.shared_;
  drops_syns_ = other.drops_syns_;
  forks_before_ = other.forks_before_;
  return *this;
}

TcpListener::~TcpListener() { RemoveFile(); }

std::error_code TcpListener::Listen(const SocketAddress& address, const Options& options) {
  const std::uint32_t forks_before = ForksSoFar();
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
  std::unique_ptr<SocketFile> file;
  if (std::error_code error = SocketFile::Listen(fd, address, options.backlog, forks_before, &file)) return error;
  Take(std::move(socket), std::move(file), options.shared, forks_before);
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
  Take(Descriptor(fd), nullptr, /*shared=*/true, ForksSoFar());
  return {};
}

void TcpListener::Take(Descriptor socket, std::unique_ptr<SocketFile> file, bool shared, std::uint32_t forks_before) {
  RemoveFile();
  descriptor_ = std::move(socket);
  file_ = std::move(file);
  closed_ = std::make_unique<FiberEvent>();
  shared_ = shared;
  drops_syns_ = false;
  forks_before_ = forks_before;
}

std::error_code TcpListener::Accept(TcpStream* stream, Deadline deadline) {
  std::chrono::milliseconds pause = kFirstPause;
  unsigned gone = 0;
  for (;;) {
    const auto accept = [](int fd) -> ssize_t { return ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); };
    const IoResult accepted = descriptor_.RetryRead(0, accept, deadline);
    if (accepted.ok()) {
      const int fd = static_cast<int>(accepted.bytes);
      if (drops_syns_) (void)PassSyns(fd);  // It has inherited the filter.
      *stream = TcpStream(Descriptor(fd));
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
    const WaitResult paused = WaitAccess::Wait(*closed_, std::min(deadline, Deadline(pause)), Interruptible::kResult);
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

bool TcpListener::MayBeShared() const {
  if (shared_ || ForksSoFar() != forks_before_) return true;
  // A socket that exec does not close is meant for another program.
  return (::fcntl(descriptor_.fd(), F_GETFD) & FD_CLOEXEC) == 0;
}

std::error_code TcpListener::StopHandshakes() {
  if (!IsOpen()) return ErrnoCode(ECANCELED);
  if (MayBeShared() || local_address().is_unix()) return std::make_error_code(std::errc::operation_not_supported);
  constexpr unsigned kFlags = 13;  // of the TCP header, with which the filter's view of a segment begins
  constexpr unsigned kAll = 0xffffffff;
  std::array<sock_filter, 4> program{{
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, TH_SYN, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, 0),
      BPF_STMT(BPF_RET | BPF_K, kAll),
  }};
  const sock_fprog filter{.len = program.size(), .filter = program.data()};
  const std::error_code error =
      descriptor_.Once([&](int fd) { return ::setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)); });
  drops_syns_ = !error;
  return error;
}

void TcpListener::RemoveFile() const {
  if (file_ != nullptr && !shared_) file_->Remove(descriptor_);
}

bool TcpListener::Close() {
  RemoveFile();
  // A second number keeps the socket, and the filter, until the first one is closed. Then the filter goes, for those
  // that have the socket without our knowledge, and the socket right after it.
  int last = -1;
  if (drops_syns_) {
    const auto keep = [&last](int fd) { return last = ::fcntl(fd, F_DUPFD_CLOEXEC, 0); };
    if (descriptor_.Once(keep)) (void)descriptor_.Once([](int fd) { return PassSyns(fd); });
  }
  const bool closed = descriptor_.Close();
  if (last >= 0) {
    (void)PassSyns(last);
    ::close(last);
  }
  if (closed) closed_->Set();
  return closed;
}

SocketAddress TcpListener::local_address() const { return LocalAddress(descriptor_); }

}  // namespace weft::io
