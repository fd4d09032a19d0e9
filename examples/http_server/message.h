// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a handler gets and gives. A connection reuses both for each of its requests.
// Bodies are rows of blocks: an answer shares those of a request, of a cache or of another server, and copies none.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_MESSAGE_H_
#define WEFT_EXAMPLES_HTTP_SERVER_MESSAGE_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "weft/base/noncontiguous_buffer.h"

namespace examples {

struct Request {
  // kOther: of those that HTTP and its extensions have; kUnknown: not even that.
  enum class Method { kGet, kHead, kPost, kOther, kUnknown };

  Method method = Method::kOther;
  std::string target;  // as sent, without the scheme and the host that it may have had
  weft::NoncontiguousBuffer body;
  std::optional<std::chrono::milliseconds> time_left;  // how long the client will wait: Request-Timeout-Ms

  std::string_view path() const { return std::string_view(target).substr(0, target.find('?')); }
  std::string_view query() const {
    const std::size_t mark = target.find('?');
    return mark == std::string::npos ? std::string_view() : std::string_view(target).substr(mark + 1);
  }
};

struct Response {
  int status = 200;
  std::string_view content_type = "text/plain";
  std::string_view allow;  // the methods there are, where the status is 405
  weft::NoncontiguousBuffer body;
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_MESSAGE_H_
