// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// UdpSocket: datagrams, of UDP or of a Unix socket. Who may call: as io/reactor/descriptor.h. Errors: as io_result.h.
#ifndef WEFT_IO_UDP_SOCKET_H_
#define WEFT_IO_UDP_SOCKET_H_

#include <cstddef>
#include <memory>
#include <span>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"

namespace weft::io {

// One of those that ReceiveMany() and SendMany() transfer.
struct Datagram {
  // Its bytes, or the room for them; stays until the call has returned.
  void* data = nullptr;
  std::size_t size = 0;    // to be sent; to be received: the room there is, and afterwards how many bytes came
  SocketAddress peer{};    // the sender; to be sent: none, if the socket is connected
  bool truncated = false;  // received: what did not fit is lost
};

// What ReceiveMany() and SendMany() return.
struct DatagramsResult {
  std::size_t datagrams = 0;  // transferred, from the first on, even if an error followed
  // None, or why it ended.
  std::error_code error;

  // Whether there was no error.
  bool ok() const noexcept { return !error; }
};

class SocketFile;

class UdpSocket {
 public:
  // Not open: Bind() or Connect() comes first.
  UdpSocket();
  // The other one is not open then. No fiber is in a call of either.
  UdpSocket(UdpSocket&& other) noexcept;
  UdpSocket& operator=(UdpSocket&& other) noexcept;
  ~UdpSocket();

  // Replaces its former socket. Receives datagrams sent to `address`; port 0: the kernel chooses. The file of a Unix
  // socket is treated as TcpListener::Listen() treats it.
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

  // Several with one system call (recvmmsg(2)): waits for one, and takes what has come besides, at most kMostReceived.
  static constexpr std::size_t kMostReceived = 32;
  [[nodiscard]] DatagramsResult ReceiveMany(std::span<Datagram> datagrams, Deadline deadline = {});
  // All, in their order (sendmmsg(2)), or an error.
  [[nodiscard]] DatagramsResult SendMany(std::span<const Datagram> datagrams, Deadline deadline = {});
  // Sends `data` as datagrams of `segment` bytes (0: invalid_argument), the last one of what is left. The kernel cuts
  // them (UDP_SEGMENT), some 60 KB a system call; where it does not, SendMany() sends them. `to`: none, if connected.
  [[nodiscard]] IoResult SendSegments(const void* data, std::size_t size, std::size_t segment, const SocketAddress& to,
                                      Deadline deadline = {});

  // Fibers in its calls get operation_canceled. False: it was not open. Any thread.
  bool Close();
  // Whether it has a descriptor. Any thread.
  bool IsOpen() const { return descriptor_.IsOpen(); }
  // Where it receives, with the port that the kernel has chosen; (none) if it is not open.
  SocketAddress local_address() const;
  // For setsockopt() and the like. -1: not open.
  int fd() const { return descriptor_.fd(); }

 private:
  friend struct detail::SelectAccess;

  void RemoveFile() const;  // before the socket is closed

  Descriptor descriptor_;
  std::unique_ptr<SocketFile> file_;  // that it has made; changed by Bind(), Connect() and operator= only
};

}  // namespace weft::io

#endif  // WEFT_IO_UDP_SOCKET_H_
