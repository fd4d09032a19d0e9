// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http1_parser.h"

#include <string.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/rfc7230.hpp>
#include <boost/optional/optional.hpp>

#include "weft/http/connection/request_target.h"

namespace weft::http {
namespace {

namespace beast = boost::beast;
using beast::http::error;

// Of its size, its extensions, and the end of the line.
constexpr std::size_t kMostChunkHeader = 4 * 1024;

std::string_view ViewOf(beast::string_view text) { return {text.data(), text.size()}; }

std::string_view TextIn(const beast::flat_buffer& input) {
  return {static_cast<const char*>(input.data().data()), input.size()};
}

// Whether a chunk's extension goes on behind the end of the line.
bool HasOpenQuote(std::string_view line) {
  bool is_open = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') is_open = !is_open;
    if (line[i] == '\\' && is_open) ++i;
  }
  return is_open;
}

// Whether a field goes on in a second line. Its name, `spelt`, lies in the buffer, and the parser has looked at the
// byte behind the line's end.
bool IsFolded(beast::string_view spelt) {
  const auto* const end = static_cast<const char*>(::rawmemchr(spelt.data() + spelt.size(), '\n'));
  return end[1] == ' ' || end[1] == '\t';
}

// The digits "1.1" of the request line, which is at the beginning of the buffer. nullptr: it does not end with a
// version.
char* VersionIn(beast::flat_buffer* input) {
  constexpr std::string_view kName = " HTTP/";
  constexpr std::size_t kSize = kName.size() + 3 + 2;  // with the end of the line
  const std::string_view line = TextIn(*input).substr(0, TextIn(*input).find('\n') + 1);
  if (line.size() < kSize) return nullptr;
  const std::string_view end = line.substr(line.size() - kSize);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::string_view version = end.substr(kName.size());
  if (!end.starts_with(kName) || !is_digit(version[0]) || version[1] != '.' || !is_digit(version[2])) return nullptr;
  return static_cast<char*>(input->data().data()) + (line.size() - kSize + kName.size());
}

bool HasLine(const beast::flat_buffer& input) { return TextIn(input).find('\n') != std::string_view::npos; }

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool IsForeign(const char* version) { return version != nullptr && version[0] != '1'; }

// A later minor version is answered as the latest that we know, which the parser does not do.
bool TakeForHttp11(beast::flat_buffer* input) {
  char* const version = VersionIn(input);
  if (version == nullptr || IsForeign(version) || version[2] <= '1') return false;
  version[2] = '1';
  return true;
}

}  // namespace

Http1Parser::Http1Parser(std::uint32_t max_header, Http1Request* request) : request_(request), max_header_(max_header) {
  header_limit(max_header);
  body_limit(boost::none);
}

Http1Parser::Step Http1Parser::ParseHeader(beast::flat_buffer* input) {
  while (!has_header()) {
    if (!has_begun() && !SkipEmptyLine(input)) return Step::kNeedsMore;
    if (input->size() == 0) return Step::kNeedsMore;
    ErrorCode failed;
    const std::size_t taken = put(input->data(), failed);
    input->consume(taken);
    header_taken_ += taken;
    // Beast looks at a version before it has the end of its line.
    if (failed == error::bad_version && !HasLine(*input)) failed = error::need_more;
    // The parser's own limit is for the line, and for the fields that it gets at once.
    if (failed == error::need_more) {
      if (header_taken_ + input->size() < max_header_) return Step::kNeedsMore;
      failed = error::header_limit;
    }
    if (failed == error::bad_version && TakeForHttp11(input)) continue;  // It takes the line once more.
    if (failed) {
      if (failed == error::bad_version && IsForeign(VersionIn(input))) Refuse(505, "this is HTTP/1.1", failed);
      return RefuseFor(failed, *input);
    }
    if (header_taken_ > max_header_) return RefuseFor(error::header_limit, *input);
  }
  return Step::kDone;
}

Http1Parser::Step Http1Parser::ParseBody(beast::flat_buffer* input, std::span<char> room, std::size_t* bytes) {
  room_ = room;
  filled_ = 0;
  while (filled_ == 0 && !has_ended()) {
    if (input->size() == 0) return Step::kNeedsMore;
    if (chunked() && !in_chunk_) {
      if (const Step step = LookAtChunk(TextIn(*input)); step != Step::kDone) return step;
    }
    ErrorCode failed;
    const std::size_t taken = put(input->data(), failed);
    input->consume(taken);
    if (failed == error::need_more) {
      if (input->size() < max_header_ + kMostChunkHeader) return Step::kNeedsMore;
      failed = error::header_limit;
    }
    if (failed) return RefuseFor(failed, *input);
  }
  *bytes = filled_;
  return Step::kDone;
}

// At the header of a chunk, or at the line's end before it. kDone: Beast may have it. Its parser takes any byte in a
// quoted extension, a line's end, too, and asserts that it is not called with less than the end of the last chunk.
Http1Parser::Step Http1Parser::LookAtChunk(std::string_view text) {
  if (text.starts_with("\r\n")) text.remove_prefix(2);
  const std::size_t end = text.substr(0, kMostChunkHeader).find("\r\n");
  const std::string_view line = text.substr(0, end);
  const auto is_control = [](char c) { return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f'; };
  const bool is_whole = end != std::string_view::npos;
  const bool may_end = !is_whole && line.ends_with('\r');
  if (line.size() > kMostChunkHeader || std::any_of(line.begin(), line.end() - (may_end ? 1 : 0), is_control) ||
      (is_whole && HasOpenQuote(line))) {
    ErrorCode failed;
    Refuse(400, "this is no chunk of HTTP/1.1", failed);
    return Step::kRefused;
  }
  return text.starts_with('0') && text.size() < std::string_view("0\r\n\r\n").size() ? Step::kNeedsMore : Step::kDone;
}

void Http1Parser::Refuse(int status, std::string_view why, ErrorCode& failed) {
  if (status_ == 0) {
    status_ = status;
    why_ = why;
  }
  failed = error::bad_value;
}

Http1Parser::Step Http1Parser::RefuseFor(const ErrorCode& failed, const beast::flat_buffer& input) {
  if (status_ != 0) return Step::kRefused;
  if (failed == error::header_limit) {
    const bool has_line = has_line_ || TextIn(input).substr(0, max_header_).find('\n') != std::string_view::npos;
    status_ = has_line ? 431 : 414;
    why_ = has_line ? "the header fields are too large" : "the request's line is too long";
  } else {
    status_ = 400;
    why_ = "this is no request of HTTP/1.1";
  }
  return Step::kRefused;
}

// One before a request (RFC 9112, 2.2). False: half of it has come.
bool Http1Parser::SkipEmptyLine(beast::flat_buffer* input) {
  if (!may_skip_line_ || input->size() == 0) return true;
  if (TextIn(*input) == "\r") return false;
  may_skip_line_ = false;
  if (TextIn(*input).starts_with("\r\n")) input->consume(2);
  return true;
}

void Http1Parser::on_request_impl(beast::http::verb, BeastView method, BeastView target, int version,
                                  ErrorCode& failed) {
  has_line_ = true;
  request_->version = version;
  request_->method = ViewOf(method);
  // Answered, what follows would be no HTTP any more.
  if (request_->method == "CONNECT") return Refuse(501, "this is no proxy", failed);
  if (!SetTarget(ViewOf(target), &request_->target, &request_->authority)) {
    return Refuse(400, "the target has no valid host", failed);
  }
  if (request_->target == "*" && request_->method != "OPTIONS") return Refuse(400, "only OPTIONS asks for *", failed);
  target_has_host_ = !request_->authority.empty();
}

void Http1Parser::on_field_impl(beast::http::field name, BeastView spelt, BeastView value, ErrorCode& failed) {
  interop::Http2Headers& fields = has_header() ? request_->trailers : request_->fields;
  std::string lower(ViewOf(spelt));
  std::transform(lower.begin(), lower.end(), lower.begin(), &Lower);
  fields.Add(lower, ViewOf(value));
  if (fields.bytes() > max_header_) return Refuse(431, "the fields are too large", failed);
  if (has_header()) return;
  switch (name) {
    case beast::http::field::host:
      ++hosts_;
      if (IsFolded(spelt) || !IsHost(ViewOf(value))) return Refuse(400, "Host is no valid name", failed);
      if (!target_has_host_) request_->authority = ViewOf(value);
      break;
    case beast::http::field::transfer_encoding:
      // HTTP/1.0 has none; a coding that we do not know has no end that we know.
      if (request_->version == 10) return Refuse(400, "HTTP/1.0 has no Transfer-Encoding", failed);
      if (!beast::iequals(value, "chunked")) return Refuse(501, "this Transfer-Encoding is not known", failed);
      break;
    case beast::http::field::expect:
      if (request_->version == 10) break;
      if (!beast::iequals(value, "100-continue")) return Refuse(417, "this Expect is not known", failed);
      expects_continue_ = true;
      break;
    case beast::http::field::connection:  // Beast forgets it of HTTP/1.0 that says keep-alive, too.
      says_close_ = says_close_ || beast::http::token_list(value).exists("close");
      break;
    default:
      break;
  }
}

void Http1Parser::on_header_impl(ErrorCode& failed) {
  if (hosts_ > 1 || (hosts_ == 0 && request_->version != 10)) Refuse(400, "there must be one Host", failed);
}

std::size_t Http1Parser::on_body_impl(BeastView part, ErrorCode&) {
  const std::size_t bytes = std::min(part.size(), room_.size() - filled_);
  std::copy_n(part.data(), bytes, room_.data() + filled_);
  filled_ += bytes;
  return bytes;
}

}  // namespace weft::http
