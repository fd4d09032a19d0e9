// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// UdpSocket: datagrams, of UDP or of a Unix socket.
//
// Who may call, and concurrency: as io/descriptor.h. Errors: as io_result.h.
#ifndef WEFT_IO_UDP_SOCKET_H_
#define WEFT_IO_UDP_SOCKET_H_

#include <cstddef>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/descriptor.h"
#include "weft/io/io_result.h"
#include "weft/io/socket_address.h"

namespace weft::io {

class UdpSocket {
 public:
  // Replaces its former socket. Receives datagrams sent to `address`; port 0: the kernel chooses.
  [[nodiscard]] std::error_code Bind(const SocketAddress& address);
  // Opens the socket if it was not bound. From now on it sends to `address`, and receives only from there.
  [[nodiscard]] std::error_code Connect(const SocketAddress& address);

  // One datagram each. What does not fit into `size` when received is lost, and *truncated, if not null, says so.
  [[nodiscard]] IoResult SendTo(const void* data, std::size_t size, const SocketAddress& to, Deadline deadline = {});
  [[nodiscard]] IoResult ReceiveFrom(void* data, std::size_t size, SocketAddress* from, bool* truncated,
                                     Deadline deadline = {});
  [[nodiscard]] IoResult ReceiveFrom(void* data, std::size_t size, SocketAddress* from, Deadline deadline = {}) {
    return ReceiveFrom(data, size, from, nullptr, deadline);
  }
  // After Connect().
  [[nodiscard]] IoResult Send(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult Receive(void* data, std::size_t size, bool* truncated, Deadline deadline = {}) {
    return ReceiveFrom(data, size, nullptr, truncated, deadline);
  }
  [[nodiscard]] IoResult Receive(void* data, std::size_t size, Deadline deadline = {}) {
    return ReceiveFrom(data, size, nullptr, nullptr, deadline);
  }

  bool Close() { return descriptor_.Close(); }
  bool IsOpen() const { return descriptor_.IsOpen(); }
  SocketAddress local_address() const;
  int fd() const { return descriptor_.fd(); }

 private:
  friend struct SelectAccess;

  Descriptor descriptor_;
};

}  // namespace weft::io

#endif  // WEFT_IO_UDP_SOCKET_H_
