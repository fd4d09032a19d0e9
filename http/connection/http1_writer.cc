// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http1_writer.h"

#include <algorithm>
#include <boost/beast/http/status.hpp>
#include <charconv>
#include <ostream>  // Boost 1.81 forgets it.

#include "weft/http/connection/content_length.h"
#include "weft/http/connection/http_date.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2_error.h"

namespace weft::http {
namespace {

using interop::Http2Errc;

class Digits {
 public:
  Digits(std::uint64_t number, int base) : end_(std::to_chars(text_, text_ + sizeof(text_), number, base).ptr) {}
  std::string_view text() const { return {text_, static_cast<std::size_t>(end_ - text_)}; }

 private:
  char text_[20];  // of 2^64
  const char* end_;
};

std::string_view ReasonOf(int status) {
  const auto text = boost::beast::http::obsolete_reason(static_cast<boost::beast::http::status>(status));
  return text.starts_with('<') ? std::string_view() : std::string_view(text.data(), text.size());  // Of unknown ones.
}

// What a head has beside the user's fields: at most 160 bytes, with the longest reason.
constexpr std::size_t kOwnOfHead = 256;

// Puts text where there is room for it: for a head that is made once, not for each of its pieces.
class Pen {
 public:
  explicit Pen(char* at) : at_(at) {}
  Pen& Put(std::string_view text) {
    at_ = std::copy(text.begin(), text.end(), at_);
    return *this;
  }
  void PutField(std::string_view name, std::string_view value) { Put(name).Put(": ").Put(value).Put("\r\n"); }
  const char* at() const { return at_; }

 private:
  char* at_;
};

}  // namespace

void Http1Writer::Begin(bool head_only, int version) {
  begun_at_ = text_.size();
  state_ = State::kBegun;
  started_ = false;
  framing_ = Framing::kNoBody;
  head_only_ = head_only;
  version_ = version;
  is_last_ = false;
}

std::error_code Http1Writer::Start(int status, const interop::Http2Headers& fields, std::optional<std::uint64_t> length,
                                   bool is_last) {
  if (state_ != State::kBegun) return Http2Errc::kWrongOrder;
  std::optional<std::uint64_t> said;
  if (!IsFinal(status) || !FindLength(fields, &said) || !interop::MayBeSent(fields)) return Http2Errc::kBadField;
  state_ = State::kBroken;  // Until all is there: memory may not suffice.
  if (said.has_value()) length = said;
  const bool has_body = status != 204 && status != 304;
  if (!has_body || head_only_) {
    framing_ = Framing::kNoBody;
  } else if (length.has_value()) {
    framing_ = Framing::kLength;
    length_left_ = *length;
  } else {
    framing_ = version_ == 10 ? Framing::kEndOfConnection : Framing::kChunks;
  }
  is_last_ = is_last || framing_ == Framing::kEndOfConnection;

  const std::size_t begin = text_.size();
  text_.resize(begin + fields.bytes() + kOwnOfHead);  // bytes() counts more for a field than its ": " and its end take.
  Pen pen(text_.data() + begin);
  if (status == 200) {
    pen.Put("HTTP/1.1 200 OK\r\n");
  } else {
    pen.Put("HTTP/1.1 ").Put(Digits(static_cast<std::uint64_t>(status), 10).text()).Put(" ");
    pen.Put(ReasonOf(status)).Put("\r\n");
  }
  for (const interop::Http2Field field : fields) {
    if (status != 204 || field.name != "content-length") pen.PutField(field.name, field.value);  // RFC 9110, 8.6
  }
  if (!fields.Has("date")) pen.PutField("date", HttpDate::Now().text());
  if (framing_ == Framing::kChunks) pen.PutField("transfer-encoding", "chunked");
  if (has_body && length.has_value() && !said.has_value()) pen.PutField("content-length", Digits(*length, 10).text());
  if (is_last_) {
    pen.PutField("connection", "close");
  } else if (version_ == 10) {
    pen.PutField("connection", "keep-alive");
  }
  pen.Put("\r\n");
  text_.resize(static_cast<std::size_t>(pen.at() - text_.data()));
  state_ = State::kStarted;
  started_ = true;
  return {};
}

std::error_code Http1Writer::Put(std::string_view bytes) {
  bool goes_out = false;
  if (const std::error_code error = BeginPiece(bytes.size(), &goes_out)) return error;
  if (!goes_out) return {};
  text_.append(bytes).append(piece_end());
  EndPiece();
  return {};
}

std::error_code Http1Writer::BeginPiece(std::size_t size, bool* goes_out) {
  *goes_out = false;
  if (state_ != State::kStarted) return Http2Errc::kWrongOrder;
  if (framing_ == Framing::kNoBody || size == 0) return {};  // An empty chunk would be the last.
  if (framing_ == Framing::kLength) {
    if (size > length_left_) {
      Break();
      return Http2Errc::kWrongOrder;
    }
    length_left_ -= size;
  }
  state_ = State::kBroken;  // Until the whole piece is there.
  if (framing_ == Framing::kChunks) text_.append(Digits(size, 16).text()).append("\r\n");
  *goes_out = true;
  return {};
}

std::error_code Http1Writer::End(const interop::Http2Headers& trailers) {
  if (state_ != State::kStarted) return Http2Errc::kWrongOrder;
  if (trailers.Has("content-length") || !interop::MayBeSent(trailers)) return Http2Errc::kBadField;
  if (framing_ == Framing::kLength && length_left_ != 0) {
    Break();
    return Http2Errc::kWrongOrder;
  }
  state_ = State::kBroken;  // Until all is there.
  if (framing_ == Framing::kChunks) {
    text_.append("0\r\n");
    for (const interop::Http2Field field : trailers) {
      text_.append(field.name).append(": ").append(field.value).append("\r\n");
    }
    text_.append("\r\n");
  }
  state_ = State::kEnded;
  return {};
}

void Http1Writer::Drop() { text_.resize(std::max(begun_at_, sent_)); }

void Http1Writer::Sent(std::size_t bytes) {
  sent_ += bytes;
  if (sent_ >= text_.size()) Clear();
}

void Http1Writer::Clear() {
  text_.clear();
  sent_ = begun_at_ = 0;
}

}  // namespace weft::http
