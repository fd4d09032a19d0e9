// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Exchange: a request and its answer of an interop::Http2Server, for a handler of an http::Server. It adds the
// field `date`, and resets an answer whose body is longer or shorter than its content-length.
#ifndef WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_
#define WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/http/connection/content_length.h"
#include "weft/http/connection/exchange.h"
#include "weft/http/connection/http_date.h"
#include "weft/interop/http2_error.h"
#include "weft/interop/http2_server.h"

namespace weft::http {

class Http2Exchange final : public Exchange {
 public:
  Http2Exchange(interop::Http2Request* request, interop::Http2Response* response)
      : request_(request),
        response_(response),
        line_{.method = request->method(),
              .target = request->path(),
              .authority = request->authority().empty() ? request->headers().Find("host") : request->authority(),
              .scheme = request->scheme(),
              .version = 20} {}

  const Line& line() const override { return line_; }
  const interop::Http2Headers& headers() const override { return request_->headers(); }
  io::IoResult Read(void* data, std::size_t size, Deadline deadline) override {
    return request_->Read(data, size, deadline);
  }
  const interop::Http2Headers& trailers() const override { return request_->trailers(); }
  bool draining() const noexcept override { return request_->draining(); }

  std::error_code Start(int status, const interop::Http2Headers& headers) override {
    std::optional<std::uint64_t> length;
    if (!IsFinal(status) || !FindLength(headers, &length)) return interop::Http2Errc::kBadField;
    const std::error_code error = response_->Start(status, FieldsOf(status, headers));
    if (!error && HasBody(status)) left_ = length;
    return error;
  }
  io::IoResult Write(std::string_view bytes, Deadline deadline) override {
    return WriteSome(bytes, bytes.size(), deadline);
  }
  io::IoResult Write(const NoncontiguousBuffer& body, Deadline deadline) override {
    return WriteSome(body, body.ByteSize(), deadline);
  }
  std::error_code Flush(Deadline) override { return {}; }  // Nothing is held back.
  std::error_code Finish(const interop::Http2Headers& trailers) override {
    if (trailers.Has("content-length")) return interop::Http2Errc::kBadField;
    if (ResetIfShort()) return interop::Http2Errc::kWrongOrder;
    return response_->Finish(trailers);
  }
  std::error_code Send(int status, const interop::Http2Headers& headers, std::string_view body,
                       Deadline deadline) override {
    std::optional<std::uint64_t> length;
    if (!IsFinal(status) || !FindLength(headers, &length)) return interop::Http2Errc::kBadField;
    if (HasBody(status) && !started() && length.value_or(body.size()) != body.size()) {
      response_->Reset();
      return interop::Http2Errc::kWrongOrder;
    }
    interop::Http2Headers all = FieldsOf(status, headers);
    if (status != 204 && status != 304 && !length.has_value()) all.Add("content-length", std::to_string(body.size()));
    return response_->Send(status, all, body, deadline);
  }
  void Reset() override { response_->Reset(); }
  bool started() const noexcept override { return response_->started(); }

  // When the handler has returned: it may have left the answer without its end. True: it was too short.
  bool ResetIfShort() {
    const bool is_short = left_.value_or(0) != 0;
    if (is_short) response_->Reset();
    return is_short;
  }

 private:
  bool HasBody(int status) const { return status != 204 && status != 304 && request_->method() != "HEAD"; }

  static interop::Http2Headers FieldsOf(int status, const interop::Http2Headers& headers) {
    interop::Http2Headers all;
    for (const interop::Http2Field field : headers) {
      if (status != 204 || field.name != "content-length") all.Add(field.name, field.value);  // RFC 9110, 8.6
    }
    if (!all.Has("date")) all.Add("date", HttpDate::Now().text());
    return all;
  }

  template <class Bytes>
  io::IoResult WriteSome(const Bytes& bytes, std::size_t size, Deadline deadline) {
    if (left_.has_value() && size > *left_) {
      response_->Reset();
      return {0, interop::Http2Errc::kWrongOrder};
    }
    const io::IoResult put = response_->Write(bytes, deadline);
    if (left_.has_value()) *left_ -= put.bytes;
    return put;
  }

  interop::Http2Request* const request_;
  interop::Http2Response* const response_;
  const Line line_;
  std::optional<std::uint64_t> left_;  // of a body whose length was said
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_
