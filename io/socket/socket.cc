// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket/socket.h"

#include <netinet/tcp.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>

#include "weft/io/reactor/descriptor.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {

std::error_code OpenSocket(int family, int type, Descriptor* socket) {
  const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoCode(errno);
  *socket = Descriptor(fd);
  return {};
}

namespace {

std::atomic<std::uint32_t> forks{0};
void CountFork() { forks.fetch_add(1, std::memory_order_relaxed); }
[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, &CountFork, &CountFork);

// A Unix socket connects at once, or finds the listener's queue full: EAGAIN, and no event tells of room, so it tries
// again. The pauses are short beside the time to empty such a queue, and long beside the system call (about 1 us).
std::error_code ConnectUnix(Descriptor* socket, const SocketAddress& address, Deadline deadline) {
  constexpr std::chrono::microseconds kFirstPause{100};
  constexpr std::chrono::microseconds kLongestPause{10'000};
  for (std::chrono::microseconds pause = kFirstPause;; pause = std::min(2 * pause, kLongestPause)) {
    const bool last = deadline.expired();  // Before the try: there is one after the deadline.
    const std::error_code error = socket->Once([&](int fd) { return ::connect(fd, address.data(), address.size()); });
    if (error.value() != EAGAIN && error.value() != EINTR) return error;
    if (last) return ErrnoCode(ETIMEDOUT);
    const auto slept =
        synchronization::SleepUntil(std::min(deadline, Deadline(pause)), synchronization::Interruptible::kResult);
    if (slept == synchronization::WaitResult::kInterrupted) return ErrnoCode(ECANCELED);
  }
}

}  // namespace

std::uint32_t ForksSoFar() noexcept { return forks.load(std::memory_order_relaxed); }  // fork() orders it.

bool IsConnectedToItself(int fd) noexcept {
  SocketAddress ends[2];
  socklen_t sizes[2] = {SocketAddress::kCapacity, SocketAddress::kCapacity};
  if (::getsockname(fd, ends[0].data(), &sizes[0]) != 0 || ::getpeername(fd, ends[1].data(), &sizes[1]) != 0)
    return false;
  for (int i = 0; i < 2; ++i) ends[i].set_size(sizes[i]);
  return !ends[0].is_unix() && ends[0] == ends[1];
}

std::error_code ConnectSocket(Descriptor* socket, const SocketAddress& address, Deadline deadline) {
  if (address.is_unix()) return ConnectUnix(socket, address, deadline);
  bool asked = false;
  const auto connect = [&](int fd) -> ssize_t {
    if (!asked) {
      asked = true;
      const int connected = ::connect(fd, address.data(), address.size());
      // An interrupted connect() continues. EAGAIN (no local port is free) would be waited for.
      if (connected == 0 || (errno != EINTR && errno != EINPROGRESS)) {
        if (connected != 0 && errno == EAGAIN) errno = EADDRNOTAVAIL;
        return connected;
      }
      errno = EAGAIN;
      return -1;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return -1;
    if (error == 0) {
      // No error: is it connected, or was this woken too early?
      sockaddr_storage peer;
      socklen_t length = sizeof(peer);
      if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &length) == 0) return 0;
      error = errno == ENOTCONN ? EAGAIN : errno;
    }
    errno = error;
    return -1;
  };
  if (const std::error_code error = socket->RetryWrite(connect, deadline).error) return error;
  bool is_itself = false;
  static_cast<void>(socket->Once([&](int fd) {
    is_itself = IsConnectedToItself(fd);
    return 0;
  }));
  return is_itself ? ErrnoCode(ECONNREFUSED) : std::error_code();
}

std::error_code SetOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? std::error_code() : ErrnoCode(errno);
}

std::error_code SetKeepAlive(Descriptor* socket, const TcpKeepAlive& keep_alive) {
  const auto set = [socket](int level, int option, std::int64_t value) {
    if (value < 0 || value > std::numeric_limits<int>::max()) return ErrnoCode(EINVAL);
    const int number = static_cast<int>(value);
    return socket->Once([&](int fd) { return ::setsockopt(fd, level, option, &number, sizeof(number)); });
  };
  if (!keep_alive.enabled) return set(SOL_SOCKET, SO_KEEPALIVE, 0);
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPIDLE, keep_alive.idle.count())) return error;
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPINTVL, keep_alive.interval.count())) return error;
  if (std::error_code error = set(IPPROTO_TCP, TCP_KEEPCNT, keep_alive.probes)) return error;
  return set(SOL_SOCKET, SO_KEEPALIVE, 1);
}

std::error_code SetUserTimeout(Descriptor* socket, std::chrono::milliseconds timeout) {
  if (timeout.count() < 0 || timeout.count() > std::numeric_limits<int>::max()) return ErrnoCode(EINVAL);
  const int number = static_cast<int>(timeout.count());
  return socket->Once([&](int fd) { return ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &number, sizeof(number)); });
}

SocketAddress LocalAddress(const Descriptor& socket) {
  SocketAddress address;
  socklen_t size = SocketAddress::kCapacity;
  if (socket.Once([&](int fd) { return ::getsockname(fd, address.data(), &size); })) return {};
  address.set_size(size);
  return address;
}

SocketAddress PeerAddress(const Descriptor& socket) {
  SocketAddress address;
  socklen_t size = SocketAddress::kCapacity;
  if (socket.Once([&](int fd) { return ::getpeername(fd, address.data(), &size); })) return {};
  address.set_size(size);
  return address;
}

}  // namespace weft::io
