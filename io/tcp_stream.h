// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TcpStream: a connected stream socket, TCP or Unix (UnixStream is the same).
// Sample:
//     io::TcpStream stream;
//     const auto address = io::SocketAddress::Parse("127.0.0.1:6379");
//     if (auto error = stream.Connect(*address, 1s)) return error;
//     if (io::IoResult put = stream.WriteAll("PING\r\n"); !put.ok()) return put.error;
//     char answer[64];
//     io::IoResult got = stream.ReadSome(answer, 5s);  // got.bytes == 0 && got.ok(): the peer has finished
//
// Who may call what, and what may happen at the same time: as io/descriptor.h. One reads and another writes: fine; two
// that write at once mix their bytes. Errors: io_result.h. A peer that is gone is an error (broken_pipe,
// connection_reset), never a SIGPIPE.
// For Boost.Asio and what is built on its stream concepts there is AsioStream (io/asio_stream.h).
#ifndef WEFT_IO_TCP_STREAM_H_
#define WEFT_IO_TCP_STREAM_H_

#include <sys/uio.h>

#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/descriptor.h"
#include "weft/io/io_result.h"
#include "weft/io/socket_address.h"

namespace weft::io {

class TcpStream {
 public:
  TcpStream() = default;
  // Takes over a connected stream socket that is non-blocking.
  explicit TcpStream(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  // In place of what it was. The address says whether TCP (without Nagle's delay) or Unix.
  [[nodiscard]] std::error_code Connect(const SocketAddress& address, Deadline deadline = {});

  // Until ReadSome() may be worth a try: bytes, the end or an error. For those who want no buffer while they wait.
  [[nodiscard]] std::error_code WaitReadable(Deadline deadline = {}) {
    return descriptor_.WaitReady(FdSlot::kRead, deadline);
  }
  // What there is, at least one byte; 0 bytes without an error: the peer has finished, or there was no room.
  [[nodiscard]] IoResult ReadSome(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadSome(std::span<char> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadSome(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadSome(const iovec* parts, std::size_t count, Deadline deadline = {});
  // Until `size` bytes are there. Fewer without an error: the peer has finished.
  [[nodiscard]] IoResult ReadAll(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadAll(std::span<char> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadAll(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }

  // What there is room for, at least one byte (0 only of nothing).
  [[nodiscard]] IoResult WriteSome(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult WriteSome(const iovec* parts, std::size_t count, Deadline deadline = {});
  // All of it, or an error; `bytes` says how much was written then.
  [[nodiscard]] IoResult WriteAll(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult WriteAll(std::string_view text, Deadline deadline = {}) {
    return WriteAll(text.data(), text.size(), deadline);
  }
  // `parts` is used up: what is left of it is what was not written.
  [[nodiscard]] IoResult WriteAll(iovec* parts, std::size_t count, Deadline deadline = {});

  // The peer reads to the end of what was written; reading goes on.
  std::error_code ShutdownWrite();
  // Readers get what has come, then the end. Any thread.
  std::error_code ShutdownRead();
  // Both ways, and readers and writers get the end or an error; the descriptor stays open. Any thread.
  std::error_code Shutdown();
  // Discards what the kernel has not sent, and tells the peer connection_reset.
  void Reset();
  // False: it was not open.
  bool Close() { return descriptor_.Close(); }
  bool IsOpen() const { return descriptor_.IsOpen(); }

  // TCP only: whether small writes go out at once (they do, unless told otherwise).
  std::error_code SetNoDelay(bool no_delay);

  // (none) if it is not connected.
  SocketAddress local_address() const;
  SocketAddress peer_address() const;
  // For setsockopt() and the like. -1: not open.
  int fd() const { return descriptor_.fd(); }

 private:
  std::error_code ShutdownHow(int how);
  IoResult OfNothing() const;

  Descriptor descriptor_;
};

using UnixStream = TcpStream;

}  // namespace weft::io

#endif  // WEFT_IO_TCP_STREAM_H_
