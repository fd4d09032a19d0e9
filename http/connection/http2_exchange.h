// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Exchange: a request and its answer of an interop::Http2Server, for a handler of an http::Server. It adds the
// field `date`.
#ifndef WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_
#define WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/http/connection/exchange.h"
#include "weft/http/connection/http_date.h"
#include "weft/interop/http2_server.h"

namespace weft::http {

class Http2Exchange final : public Exchange {
 public:
  Http2Exchange(interop::Http2Request* request, interop::Http2Response* response)
      : request_(request),
        response_(response),
        line_{.method = request->method(),
              .target = request->path(),
              .authority = request->authority(),
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
    return response_->Start(status, WithDate(headers));
  }
  io::IoResult Write(std::string_view bytes, Deadline deadline) override { return response_->Write(bytes, deadline); }
  io::IoResult Write(const NoncontiguousBuffer& body, Deadline deadline) override {
    return response_->Write(body, deadline);
  }
  std::error_code Finish(const interop::Http2Headers& trailers) override { return response_->Finish(trailers); }
  std::error_code Send(int status, const interop::Http2Headers& headers, std::string_view body,
                       Deadline deadline) override {
    interop::Http2Headers all = WithDate(headers);
    if (status != 204 && status != 304 && !all.Has("content-length")) {
      all.Add("content-length", std::to_string(body.size()));
    }
    return response_->Send(status, all, body, deadline);
  }
  void Reset() override { response_->Reset(); }
  bool started() const noexcept override { return response_->started(); }

 private:
  static interop::Http2Headers WithDate(const interop::Http2Headers& headers) {
    interop::Http2Headers all = headers;
    if (!all.Has("date")) all.Add("date", HttpDate::Now().text());
    return all;
  }

  interop::Http2Request* const request_;
  interop::Http2Response* const response_;
  const Line line_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP2_EXCHANGE_H_
