// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http1Parser: a request of HTTP/1, by Boost.Beast's parser, which gives the pieces: the line and the fields go into a
// Http1Request, the bytes of the body to where the reader wants them.
//
// What Beast leaves to its users is here: the target's form and Host (RFC 9112, 3.2), a field Host that goes on in a
// second line, codings that we do not know, a later minor version (RFC 9110, 2.5), the form and the limit of a chunk's
// header, and the limits of a header and of trailers, whether they come in pieces or at once.
//
// Used by one fiber at a time.
#ifndef WEFT_HTTP_CONNECTION_HTTP1_PARSER_H_
#define WEFT_HTTP_CONNECTION_HTTP1_PARSER_H_

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weft/interop/http2_headers.h"

namespace weft::http {

struct Http1Request {
  std::string method;
  std::string target;     // without the scheme and the host that it may have had
  std::string authority;  // the target's, or else Host
  interop::Http2Headers fields;
  interop::Http2Headers trailers;
  int version = 11;
};

class Http1Parser final : private boost::beast::http::basic_parser<true> {
 public:
  // `request` is empty. `max_header`: bytes of the line and the fields as they are sent, and of the fields and the
  // trailers as Http2Headers::bytes() counts them.
  Http1Parser(std::uint32_t max_header, Http1Request* request);

  enum class Step { kDone, kNeedsMore, kRefused };
  // Takes the line and the fields out of the input. kRefused: status() and why() say with what.
  Step ParseHeader(boost::beast::flat_buffer* input);
  // Takes bytes of the body, at most as many as there is room for, of which *bytes says how many. kDone: some have
  // come, or the body has ended.
  Step ParseBody(boost::beast::flat_buffer* input, std::span<char> room, std::size_t* bytes);

  // After the first byte.
  bool has_begun() const { return got_some(); }
  // The header has come; what follows is good from then on.
  bool has_header() const { return is_header_done(); }
  bool has_ended() const { return is_done(); }
  bool keep_alive() const { return basic_parser::keep_alive() && !says_close_; }
  // The client waits for "100 Continue" before it sends the body.
  bool expects_continue() const { return expects_continue_ && !has_ended() && !body_has_begun_; }
  // Of the body, to come; the largest number if nobody knows.
  std::uint64_t body_left() const { return chunked() ? UINT64_MAX : content_length_remaining().value_or(0); }

  int status() const { return status_; }
  std::string_view why() const { return why_; }

 private:
  using ErrorCode = boost::system::error_code;
  using BeastView = boost::beast::string_view;

  void Refuse(int status, std::string_view why, ErrorCode& error);
  Step RefuseFor(const ErrorCode& error, const boost::beast::flat_buffer& input);
  bool SkipEmptyLine(boost::beast::flat_buffer* input);
  Step LookAtChunk(std::string_view text);

  void on_request_impl(boost::beast::http::verb, BeastView method, BeastView target, int version,
                       ErrorCode& error) override;
  void on_field_impl(boost::beast::http::field name, BeastView spelt, BeastView value, ErrorCode& error) override;
  void on_header_impl(ErrorCode& error) override;
  void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override { body_has_begun_ = true; }
  std::size_t on_body_impl(BeastView part, ErrorCode& error) override;
  void on_chunk_header_impl(std::uint64_t, BeastView, ErrorCode&) override { in_chunk_ = true; }
  std::size_t on_chunk_body_impl(std::uint64_t left, BeastView part, ErrorCode& error) override {
    const std::size_t taken = on_body_impl(part, error);
    in_chunk_ = taken < left;
    return taken;
  }
  void on_finish_impl(ErrorCode&) override {}
  void on_response_impl(int, BeastView, int, ErrorCode&) override {}

  Http1Request* const request_;
  const std::uint32_t max_header_;
  std::span<char> room_;
  std::size_t filled_ = 0;
  int status_ = 0;
  std::string_view why_;
  std::size_t header_taken_ = 0;
  std::uint32_t hosts_ = 0;
  bool target_has_host_ = false;
  bool may_skip_line_ = true;
  bool has_line_ = false;
  bool body_has_begun_ = false;
  bool expects_continue_ = false;
  bool says_close_ = false;
  bool in_chunk_ = false;  // in its bytes, behind its header
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP1_PARSER_H_
