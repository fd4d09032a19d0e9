// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// ResponseWriter: responses as bytes, one behind the other, so that one write sends the answers to pipelined requests.
// Headers and short bodies are copied into one string; of longer bodies the blocks are shared.
//
// Rejected: beast::http::serializer (fields in a tree, a buffer sequence of a dozen parts).
//
// Used by one fiber at a time.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_RESPONSE_WRITER_H_
#define WEFT_EXAMPLES_HTTP_SERVER_RESPONSE_WRITER_H_

#include <cstddef>
#include <string>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_stream.h"

#include "http_server/message.h"

namespace examples {

// What the Connection header has to say.
enum class ConnectionHeader { kNone, kKeepAlive, kClose };

class ResponseWriter {
 public:
  // head_only: Content-Length is that of the body, which is omitted.
  void Append(const Response& response, bool head_only, ConnectionHeader connection);
  // "100 Continue".
  void AppendContinue();

  std::size_t pending() const { return blocks_.ByteSize() + text_.size(); }
  // Writes all that is pending. Afterwards nothing is, also after an error.
  weft::io::IoResult WriteTo(weft::io::TcpStream* stream, weft::Deadline deadline);
  void Clear();
  std::size_t capacity() const { return text_.capacity(); }

 private:
  void PutTextIntoBlocks();

  weft::NoncontiguousBuffer blocks_;
  std::string text_;  // behind the blocks
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_RESPONSE_WRITER_H_
