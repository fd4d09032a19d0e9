// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Exchange: a request and its answer, of one version of HTTP: what Request and Response (http/message.h) are made of.
// What each call means is said there.
#ifndef WEFT_HTTP_CONNECTION_EXCHANGE_H_
#define WEFT_HTTP_CONNECTION_EXCHANGE_H_

#include <cstddef>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/interop/http2_headers.h"
#include "weft/io/io_result.h"

namespace weft::http {

class Exchange {
 public:
  struct Line {
    std::string_view method;
    std::string_view target;
    std::string_view authority;
    std::string_view scheme;
    int version = 11;
  };

  virtual const Line& line() const = 0;
  virtual const interop::Http2Headers& headers() const = 0;
  virtual io::IoResult Read(void* data, std::size_t size, Deadline deadline) = 0;
  virtual const interop::Http2Headers& trailers() const = 0;
  virtual bool draining() const noexcept = 0;

  virtual std::error_code Start(int status, const interop::Http2Headers& headers) = 0;
  virtual io::IoResult Write(std::string_view bytes, Deadline deadline) = 0;
  virtual io::IoResult Write(const NoncontiguousBuffer& body, Deadline deadline) = 0;
  virtual std::error_code Flush(Deadline deadline) = 0;
  virtual std::error_code Finish(const interop::Http2Headers& trailers) = 0;
  virtual std::error_code Send(int status, const interop::Http2Headers& headers, std::string_view body,
                               Deadline deadline) = 0;
  virtual void Reset() = 0;
  virtual bool started() const noexcept = 0;

 protected:
  ~Exchange() = default;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_EXCHANGE_H_
