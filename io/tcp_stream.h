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
// Who may call: as io/reactor/descriptor.h. One fiber may read while another one writes; two that write at once mix
// their bytes. Errors: io_result.h. A peer that has gone is an error (broken_pipe, connection_reset), never a SIGPIPE.
// See also io/cancel_on_hangup.h (the peer goes away while nobody reads) and io/asio_stream.h (Boost.Asio).
#ifndef WEFT_IO_TCP_STREAM_H_
#define WEFT_IO_TCP_STREAM_H_

#include <sys/types.h>
#include <sys/uio.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"

namespace weft::io {

class CancelOnHangup;
class TcpServer;

class TcpStream {
 public:
  // Not open.
  TcpStream() = default;
  // Takes over a connected stream socket (and makes it non-blocking: io/reactor/descriptor.h).
  explicit TcpStream(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

  // A success replaces the former connection. The address says whether it is TCP (without Nagle's delay) or Unix.
  [[nodiscard]] std::error_code Connect(const SocketAddress& address, Deadline deadline = {});

  // Waits until poll(2) would say readable: for bytes, the end or an error. No buffer is needed meanwhile.
  [[nodiscard]] std::error_code WaitReadable(Deadline deadline = {}) { return descriptor_.WaitReadable(deadline); }
  // Reads what is there, at least one byte. 0 bytes without an error: the peer has finished, or there was no room.
  [[nodiscard]] IoResult ReadSome(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadSome(std::span<char> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadSome(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadSome(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadSome(const iovec* parts, std::size_t count, Deadline deadline = {});
  // Reads until it has `size` bytes. Fewer without an error: the peer has finished.
  [[nodiscard]] IoResult ReadAll(void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult ReadAll(std::span<char> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }
  [[nodiscard]] IoResult ReadAll(std::span<std::byte> room, Deadline deadline = {}) {
    return ReadAll(room.data(), room.size(), deadline);
  }

  // Appends what is there, at least one byte and at most `max`, to the buffer, behind its last bytes if there is room,
  // else in a new block of `max` bytes. Nobody else uses the buffer meanwhile.
  [[nodiscard]] IoResult ReadInto(NoncontiguousBuffer* buffer, std::size_t max, Deadline deadline = {});

  // Writes what the kernel has room for, at least one byte (0 only if size is 0).
  [[nodiscard]] IoResult WriteSome(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult WriteSome(const iovec* parts, std::size_t count, Deadline deadline = {});
  // The first blocks, without a copy; a buffer that is to be freed as it goes out is Skip()ped by what was written.
  [[nodiscard]] IoResult WriteSome(const NoncontiguousBuffer& buffer, Deadline deadline = {});
  // Writes all, or returns an error and in `bytes` how much was written.
  [[nodiscard]] IoResult WriteAll(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] IoResult WriteAll(std::string_view text, Deadline deadline = {}) {
    return WriteAll(text.data(), text.size(), deadline);
  }
  // Leaves the buffer as it is. Many blocks go out with one system call.
  [[nodiscard]] IoResult WriteAll(const NoncontiguousBuffer& buffer, Deadline deadline = {});
  // Changes `parts`: afterwards they describe what was not written.
  [[nodiscard]] IoResult WriteAll(iovec* parts, std::size_t count, Deadline deadline = {});

  // The peer reads what was written, then the end. Reading goes on.
  std::error_code ShutdownWrite();
  // Readers get what has come, then the end. Any thread.
  std::error_code ShutdownRead();
  // Both ways: readers and writers get the end or an error. The descriptor stays open. Any thread.
  std::error_code Shutdown();
  // Discards what the kernel has not sent, and tells the peer connection_reset.
  void Reset();
  // False: it was not open.
  bool Close() { return descriptor_.Close(); }
  // Whether it has a descriptor, also when the peer has gone. Any thread.
  bool IsOpen() const { return descriptor_.IsOpen(); }

  // After the socket was given an upper-layer protocol (TCP_ULP: kTLS), where a read may end before the bytes do.
  void ExpectShortReads() { descriptor_.ExpectShortReads(); }

  // How long a call that has no deadline of its own waits at a time: for bytes, for room to write. Then it ends with
  // timed_out, up to an eighth later. 0, the default: for ever. It counts for waits that begin afterwards. A peer that
  // goes on byte by byte is not ended by it: a CancelScope with a deadline limits the whole. Any fiber and thread.
  // invalid_argument: below 0.
  struct Timeouts {
    // For bytes of the peer. 0: no limit.
    std::chrono::milliseconds read{0};
    // For room to write. 0: no limit.
    std::chrono::milliseconds write{0};
  };
  // From the next wait on. invalid_argument: one is below 0.
  std::error_code SetTimeouts(const Timeouts& timeouts);

  // TCP only: whether small writes go out at once, which is the default.
  std::error_code SetNoDelay(bool no_delay);
  // TCP only, for peers that vanish without a word (io/tcp_liveness.h). Reads, or both, then end with timed_out.
  std::error_code SetKeepAlive(const TcpKeepAlive& keep_alive);
  std::error_code SetUserTimeout(std::chrono::milliseconds timeout);

  // (none) if it is not connected.
  SocketAddress local_address() const;
  SocketAddress peer_address() const;
  // For setsockopt() and the like. -1: not open.
  int fd() const { return descriptor_.fd(); }

 private:
  friend class CancelOnHangup;
  friend struct detail::SelectAccess;
  friend class TcpConnection;
  friend class TcpServer;
  friend IoResult SendFile(TcpStream* stream, int file, off_t offset, std::size_t size, Deadline deadline);

  std::error_code ShutdownHow(int how);
  // TCP_INFO: a tcp_info, of which there are two in the headers. Any thread, also while another one closes the stream.
  std::error_code GetTcpInfo(void* info, std::size_t size) const;
  IoResult OfNothing() const;

  Descriptor descriptor_;
};

// A stream connects to what its address says; the name is for readers.
using UnixStream = TcpStream;

}  // namespace weft::io

#endif  // WEFT_IO_TCP_STREAM_H_
