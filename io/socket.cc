// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/socket.h"

#include <cerrno>

#include "weft/io/descriptor_calls.h"

namespace weft::io {

std::error_code OpenSocket(int family, int type, Descriptor* socket) {
  const int fd = ::socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoCode(errno);
  *socket = Descriptor(fd);
  return {};
}

std::error_code ConnectSocket(Descriptor* socket, const SocketAddress& address, Deadline deadline) {
  bool asked = false;
  const auto connect = [&](int fd) -> ssize_t {
    if (!asked) {
      asked = true;
      const int connected = ::connect(fd, address.data(), address.size());
      // An interrupted connect() continues. A Unix socket that finds the queue full does not: EAGAIN.
      if (connected == 0 || (errno != EINTR && errno != EINPROGRESS)) {
        if (connected != 0 && errno == EAGAIN) errno = ECONNREFUSED;
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
  return socket->RetryWrite(connect, deadline).error;
}

std::error_code SetOption(int fd, int level, int option, int value) {
  return ::setsockopt(fd, level, option, &value, sizeof(value)) == 0 ? std::error_code() : ErrnoCode(errno);
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
