// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http1Output: sends what an Http1Writer puts together: short pieces are copied, and go out with what comes next; long
// ones go out from where they lie, in one system call with what is around them. TLS copies what it encrypts, and each
// of its writes is a system call, so there pieces are long from 64 KiB on.
//
// After an error nothing more goes out, until BeginAnswer(). Used by one fiber at a time.
#ifndef WEFT_HTTP_CONNECTION_HTTP1_OUTPUT_H_
#define WEFT_HTTP_CONNECTION_HTTP1_OUTPUT_H_

#include <cstddef>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/http/connection/http1_writer.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_stream.h"

namespace weft::http {

class Http1Output {
 public:
  // `tcp`: nullptr if something lies between, as TLS does.
  Http1Output(const interop::Http2Transport& transport, io::TcpStream* tcp, Http1Writer* writer)
      : transport_(transport), tcp_(tcp), writer_(*writer) {}

  void BeginAnswer() { failed_ = false; }
  bool failed() const { return failed_; }

  // Of a body. `bytes`: how many were taken over.
  io::IoResult PutPiece(std::string_view piece, Deadline deadline);
  std::error_code Flush(Deadline deadline) { return FlushWith({}, {}, deadline).error; }

  // So much is put together for a write.
  static constexpr std::size_t kLargeWrite = 64 * 1024;

 private:
  io::IoResult FlushWith(std::string_view piece, std::string_view end, Deadline deadline);
  io::IoResult WriteSome(std::string_view pending, std::string_view piece, std::string_view end, Deadline deadline);

  const interop::Http2Transport& transport_;
  io::TcpStream* const tcp_;
  Http1Writer& writer_;
  bool failed_ = false;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP1_OUTPUT_H_
