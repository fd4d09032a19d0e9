// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReplyWriter: answers of the Redis protocol (RESP2), gathered and written together.
//
// Short answers are copied to a buffer, which is written when the reader has no more requests (Flush()) or at kFlushAt.
// A long value is written from its place, together with the buffer. So kFlushAt bounds the memory of a connection's
// answers: while the peer does not read, a write parks the connection's fiber, and no more requests are read.
//
// One user at a time; all but the constructor may switch. After an error of the stream it discards everything.
#ifndef WEFT_EXAMPLES_RESP_SERVER_REPLY_WRITER_H_
#define WEFT_EXAMPLES_RESP_SERVER_REPLY_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/io/tcp_stream.h"

#include "resp_server/numbers.h"

namespace examples::resp {

class ReplyWriter {
 public:
  static constexpr std::size_t kFlushAt = std::size_t{64} << 10;
  // Larger values are not copied to the buffer.
  static constexpr std::size_t kLongValue = std::size_t{16} << 10;

  // `buffer` is empty, and borrowed.
  ReplyWriter(weft::io::TcpStream* stream, std::string* buffer) : stream_(stream), buffer_(buffer) {}
  ReplyWriter(const ReplyWriter&) = delete;
  ReplyWriter& operator=(const ReplyWriter&) = delete;

  void Simple(std::string_view text) { AppendLine('+', text); }  // without line ends
  void Ok() { Raw("+OK\r\n"); }
  // "ERR what is wrong"; line ends become spaces.
  void Error(std::string_view text);
  void Integer(std::int64_t number) { AppendLine(':', NumberText(number).view()); }
  void Bulk(std::string_view bytes);
  void Null() { Raw("$-1\r\n"); }
  // So many answers follow.
  void Array(std::size_t size) { AppendLine('*', NumberText(static_cast<std::int64_t>(size)).view()); }

  // False: the connection is broken.
  bool Flush();
  bool broken() const { return static_cast<bool>(error_); }
  // timed_out: the peer did not read.
  std::error_code error() const { return error_; }

 private:
  void Raw(std::string_view text) {
    buffer_->append(text);
    if (buffer_->size() >= kFlushAt) (void)Flush();
  }
  void AppendLine(char type, std::string_view text) {
    buffer_->push_back(type);
    buffer_->append(text);
    Raw("\r\n");
  }
  void LongBulk(std::string_view bytes);

  weft::io::TcpStream* const stream_;
  std::string* const buffer_;
  std::error_code error_;
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_REPLY_WRITER_H_
