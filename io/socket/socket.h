// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Functions that all sockets share.
#ifndef WEFT_IO_SOCKET_SOCKET_H_
#define WEFT_IO_SOCKET_SOCKET_H_

#include <chrono>
#include <cstdint>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"

namespace weft::io {

// Opens a non-blocking socket that exec closes; `type` is SOCK_STREAM or SOCK_DGRAM.
[[nodiscard]] std::error_code OpenSocket(int family, int type, Descriptor* socket);

// Whether a TCP socket is connected to itself. A connect() to a port of this machine on which nobody listens may be
// given that port as its own, and then meets itself; nobody could listen there as long as it is open.
bool IsConnectedToItself(int fd) noexcept;

// Connects and waits until it is connected. Fiber or thread. One that meets itself is refused; the caller closes it.
[[nodiscard]] std::error_code ConnectSocket(Descriptor* socket, const SocketAddress& address, Deadline deadline);

// Counts the forks of this process and of those that it was forked from. If the count has changed since a socket was
// opened, another process may have that socket, too.
std::uint32_t ForksSoFar() noexcept;

std::error_code SetOption(int fd, int level, int option, int value);

// For TcpStream and TcpListener.
std::error_code SetKeepAlive(Descriptor* socket, const TcpKeepAlive& keep_alive);
std::error_code SetUserTimeout(Descriptor* socket, std::chrono::milliseconds timeout);

// (none): the socket is closed, or not connected.
SocketAddress LocalAddress(const Descriptor& socket);
SocketAddress PeerAddress(const Descriptor& socket);

}  // namespace weft::io

#endif  // WEFT_IO_SOCKET_SOCKET_H_
