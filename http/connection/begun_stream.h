// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BegunStream: a connection of which somebody has read the first bytes already: they are read once more, and then what
// follows. An interop::Http2SecureStream.
#ifndef WEFT_HTTP_CONNECTION_BEGUN_STREAM_H_
#define WEFT_HTTP_CONNECTION_BEGUN_STREAM_H_

#include <algorithm>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_stream.h"

namespace weft::http {

class BegunStream {
 public:
  BegunStream(io::TcpConnection* connection, std::string begun) : connection_(connection), begun_(std::move(begun)) {}

  io::IoResult ReadRequest(void* data, std::size_t size, Deadline deadline) {
    return begun_.empty() ? connection_->ReadRequest(data, size, deadline) : Take(data, size);
  }
  io::IoResult ReadSome(void* data, std::size_t size, Deadline deadline) {
    return begun_.empty() ? transport().ReadSome(data, size, deadline) : Take(data, size);
  }
  std::error_code AwaitRequest(Deadline deadline) {
    return begun_.empty() ? connection_->AwaitRequest(deadline) : std::error_code();
  }
  std::error_code WaitReadable(Deadline deadline) {
    return begun_.empty() ? transport().WaitReadable(deadline) : std::error_code();
  }
  io::IoResult WriteSome(const void* data, std::size_t size, Deadline deadline) {
    return transport().WriteSome(data, size, deadline);
  }
  std::error_code ShutdownWrite(Deadline) { return transport().ShutdownWrite(); }
  io::TcpStream& transport() { return connection_->stream(); }

 private:
  io::IoResult Take(void* data, std::size_t size) {
    const std::size_t taken = begun_.copy(static_cast<char*>(data), size);
    begun_.erase(0, taken);
    if (begun_.empty()) begun_ = std::string();  // Its memory, too.
    return {taken, {}};
  }

  io::TcpConnection* const connection_;
  std::string begun_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_BEGUN_STREAM_H_
