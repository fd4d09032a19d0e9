// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http1Writer: the bytes of answers, in the order in which they go out: heads, bodies of known length or in chunks,
// trailers. It puts bytes together, and whoever has it sends pending(). It knows what an answer may not be: a body of
// another length than was said, anything before its head or after its end.
//
//     Begin() --Start()--> a head is pending --Put()...--> a body --End()--> the next Begin()
//
// Used by one fiber at a time.
#ifndef WEFT_HTTP_CONNECTION_HTTP1_WRITER_H_
#define WEFT_HTTP_CONNECTION_HTTP1_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/interop/http2_headers.h"

namespace weft::http {

class Http1Writer {
 public:
  // The next answer: to HEAD, to a client of that version.
  void Begin(bool head_only, int version);
  void PutContinue() { text_.append("HTTP/1.1 100 Continue\r\n\r\n"); }
  // `length`: of the body; none: what the fields say, or nobody knows. `is_last`: the connection ends after it.
  // kBadField, kWrongOrder: nothing was put.
  [[nodiscard]] std::error_code Start(int status, const interop::Http2Headers& fields,
                                      std::optional<std::uint64_t> length, bool is_last);
  [[nodiscard]] std::error_code Put(std::string_view bytes);
  // The same in two steps, for a piece that is not copied: if *goes_out, pending(), the piece and piece_end() are sent
  // in this order between the two.
  [[nodiscard]] std::error_code BeginPiece(std::size_t size, bool* goes_out);
  std::string_view piece_end() const { return framing_ == Framing::kChunks ? "\r\n" : ""; }
  void EndPiece() { state_ = State::kStarted; }
  [[nodiscard]] std::error_code End(const interop::Http2Headers& trailers);

  bool started() const { return started_; }
  bool ended() const { return state_ == State::kEnded; }
  // It can come to no end: its body is longer or shorter than it says, or memory did not suffice for it.
  bool broken() const { return state_ == State::kBroken; }
  void Break() { state_ = State::kBroken; }
  // What was not sent of it. The answers before it stay.
  void Drop();
  // The connection ends after it, as it says.
  bool is_last() const { return is_last_; }
  // Its body has no other end than that of the connection.
  bool ends_with_connection() const { return framing_ == Framing::kEndOfConnection; }

  std::string_view pending() const { return std::string_view(text_).substr(sent_); }
  // The first bytes of pending() were sent.
  void Sent(std::size_t bytes);
  // For the next connection: nothing is pending.
  void Clear();
  std::size_t capacity() const { return text_.capacity(); }

 private:
  enum class State : std::uint8_t { kBegun, kStarted, kEnded, kBroken };
  enum class Framing : std::uint8_t { kNoBody, kLength, kChunks, kEndOfConnection };

  std::string text_;
  std::size_t sent_ = 0;
  std::size_t begun_at_ = 0;  // in text_
  State state_ = State::kBegun;
  Framing framing_ = Framing::kNoBody;
  std::uint64_t length_left_ = 0;
  int version_ = 11;
  bool started_ = false;
  bool head_only_ = false;
  bool is_last_ = false;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP1_WRITER_H_
