// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/connect_to_host.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket/socket.h"
#include "weft/io/socket_address.h"
#include "weft/io/wait_fd.h"
#include "weft/net/resolver.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {
namespace {

// There is no way from this machine: it says nothing about the host.
bool IsAboutTheWay(std::error_code error) {
  switch (error.value()) {
    case ENETUNREACH:
    case EHOSTUNREACH:
    case ENETDOWN:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EACCES:
    case EPERM:
      return true;
    default:
      return false;
  }
}

// The attempts of ConnectToFirst().
//
// Invariants
//   CR1  While an address is left and the race is not over, an attempt is pending or the next one begins at once.
//   CR2  Each pending attempt is in the epoll set once, and is asked for its outcome when it is reported.
//   CR3  What did not win is closed when the race goes.
class ConnectRace {
 public:
  ConnectRace(std::span<const SocketAddress> addresses, std::chrono::nanoseconds attempt_delay)
      : left_(addresses), attempt_delay_(attempt_delay) {}
  ~ConnectRace();
  ConnectRace(const ConnectRace&) = delete;
  ConnectRace& operator=(const ConnectRace&) = delete;

  // Once. Fiber or thread. Success: *winner is connected.
  [[nodiscard]] std::error_code Run(Descriptor* winner, Deadline deadline);

 private:
  enum class Outcome { kPending, kConnected, kFailed };

  std::error_code Open();
  Outcome BeginNext();
  Outcome Begin(const SocketAddress& address, Descriptor* socket);
  std::error_code Await(Deadline until);
  bool TakeOutcomes();
  Outcome OutcomeOf(Descriptor* socket, bool has_ended);
  void NoteFailure(std::error_code error);
  Outcome Win(Descriptor* socket);

  std::span<const SocketAddress> left_;
  const std::chrono::nanoseconds attempt_delay_;
  int epoll_ = -1;
  std::vector<Descriptor> attempts_;  // not open: it has ended
  std::size_t pending_ = 0;
  std::error_code failure_;
  Descriptor winner_;
};

ConnectRace::~ConnectRace() {
  if (epoll_ >= 0) (void)CloseFd(epoll_);  // Before the attempts: a forked child may still hold these.
}

std::error_code ConnectRace::Open() {
  attempts_.reserve(left_.size());
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  return epoll_ >= 0 ? std::error_code() : ErrnoCode(errno);
}

std::error_code ConnectRace::Run(Descriptor* winner, Deadline deadline) {
  if (left_.empty()) return ErrnoCode(EADDRNOTAVAIL);
  if (const std::error_code error = Open()) return error;
  Deadline next_at = std::chrono::seconds(0);
  for (;;) {
    const bool begins = !left_.empty() && (pending_ == 0 || next_at.expired());
    if (begins) {
      const Outcome outcome = BeginNext();
      if (outcome == Outcome::kConnected) break;
      if (outcome == Outcome::kFailed) continue;  // CR1
      next_at = attempt_delay_;
    }
    if (pending_ == 0) return failure_;
    const std::error_code error = Await(left_.empty() ? deadline : std::min(deadline, next_at));
    if (error && error != std::errc::timed_out) return error;
    const std::size_t before = pending_;
    if (!error && TakeOutcomes()) break;
    if (pending_ < before) next_at = std::chrono::seconds(0);
    if (error && deadline.expired()) return error;
  }
  *winner = std::move(winner_);
  return {};
}

ConnectRace::Outcome ConnectRace::BeginNext() {
  const SocketAddress& address = left_.front();
  left_ = left_.subspan(1);
  Descriptor socket;
  const Outcome outcome = Begin(address, &socket);
  if (outcome != Outcome::kPending) return outcome;
  epoll_event event{.events = EPOLLOUT, .data = {.u64 = attempts_.size()}};
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, socket.fd(), &event) != 0) {
    NoteFailure(ErrnoCode(errno));
    return Outcome::kFailed;
  }
  attempts_.push_back(std::move(socket));
  ++pending_;
  return outcome;
}

ConnectRace::Outcome ConnectRace::Begin(const SocketAddress& address, Descriptor* socket) {
  std::error_code error = OpenSocket(address.family(), SOCK_STREAM, socket);
  if (!error && !address.is_unix()) error = SetOption(socket->fd(), IPPROTO_TCP, TCP_NODELAY, 1);
  if (!error) {
    if (::connect(socket->fd(), address.data(), address.size()) == 0) return Win(socket);
    if (errno == EINPROGRESS || errno == EINTR) return Outcome::kPending;  // An interrupted connect() continues.
    error = ErrnoCode(errno);
  }
  NoteFailure(error);
  return Outcome::kFailed;
}

std::error_code ConnectRace::Await(Deadline until) { return WaitFd(epoll_, POLLIN, until).error; }

// True: one has won.
bool ConnectRace::TakeOutcomes() {
  constexpr int kAtOnce = 16;
  epoll_event events[kAtOnce];
  const int count = ::epoll_wait(epoll_, events, kAtOnce, 0);
  for (int i = 0; i < count; ++i) {
    Descriptor* const socket = &attempts_[events[i].data.u64];
    const Outcome outcome = OutcomeOf(socket, (events[i].events & (EPOLLHUP | EPOLLERR)) != 0);
    if (outcome == Outcome::kConnected) return true;
    if (outcome == Outcome::kPending) continue;
    // Closing it is not enough: a child that another thread has just forked holds the same file.
    (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket->fd(), nullptr);
    *socket = Descriptor();
    --pending_;
  }
  return false;
}

// has_ended: the kernel says so, whatever there is to be asked.
ConnectRace::Outcome ConnectRace::OutcomeOf(Descriptor* socket, bool has_ended) {
  int error = 0;
  socklen_t size = sizeof(error);
  if (::getsockopt(socket->fd(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) {
    sockaddr_storage peer;
    socklen_t length = sizeof(peer);
    if (::getpeername(socket->fd(), reinterpret_cast<sockaddr*>(&peer), &length) == 0) return Win(socket);
    error = errno;
    if (error == ENOTCONN && !has_ended) return Outcome::kPending;
    if (error == ENOTCONN) error = ECONNABORTED;
  }
  NoteFailure(ErrnoCode(error));
  return Outcome::kFailed;
}

void ConnectRace::NoteFailure(std::error_code error) {
  if (!failure_ || !IsAboutTheWay(error) || IsAboutTheWay(failure_)) failure_ = error;
}

ConnectRace::Outcome ConnectRace::Win(Descriptor* socket) {
  if (IsConnectedToItself(socket->fd())) {
    NoteFailure(ErrnoCode(ECONNREFUSED));
    return Outcome::kFailed;
  }
  if (epoll_ >= 0 && socket->fd() >= 0) (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, socket->fd(), nullptr);
  winner_ = std::move(*socket);
  return Outcome::kConnected;
}

}  // namespace

namespace detail {

std::vector<SocketAddress> AlternateFamilies(const std::vector<SocketAddress>& addresses) {
  std::vector<SocketAddress> alternating;
  std::vector<SocketAddress> others;
  for (const SocketAddress& address : addresses) {
    (address.family() == addresses.front().family() ? alternating : others).push_back(address);
  }
  std::size_t at = 1;
  for (const SocketAddress& address : others) {
    at = std::min(at, alternating.size());
    alternating.insert(alternating.begin() + static_cast<std::ptrdiff_t>(at), address);
    at += 2;
  }
  return alternating;
}

}  // namespace detail

std::error_code ConnectToFirst(std::span<const SocketAddress> addresses, TcpStream* stream,
                               std::chrono::nanoseconds attempt_delay, Deadline deadline) {
  if (addresses.size() == 1) return stream->Connect(addresses.front(), deadline);
  Descriptor socket;
  ConnectRace race(addresses, attempt_delay);
  if (const std::error_code error = race.Run(&socket, deadline)) return error;
  *stream = TcpStream(std::move(socket));
  return {};
}

std::error_code detail::ConnectToHost(const std::string& host, const std::string& service, TcpStream* stream,
                                      const ConnectOptions& options, Deadline deadline) {
  Resolver& resolver = options.resolver != nullptr ? *options.resolver : ProcessResolver();
  const ResolveResult found = resolver.Resolve(host, service, {.family = options.family}, deadline);
  if (!found.ok()) return found.error;
  TcpStream connected;
  std::error_code error =
      ConnectToFirst(AlternateFamilies(found.addresses), &connected, options.attempt_delay, deadline);
  if (!error) error = SetLiveness(&connected, options.keep_alive, options.user_timeout);
  if (!error) *stream = std::move(connected);
  return error;
}

}  // namespace weft::io
