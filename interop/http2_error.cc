// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_error.h"

#include <string>

namespace weft::interop {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weft.http2"; }
  std::string message(int code) const override {
    switch (static_cast<Http2Errc>(code)) {
      case Http2Errc::kStreamReset:
        return "the peer has reset the stream";
      case Http2Errc::kNotBegun:
        return "the server has not begun the request: it may be made again";
      case Http2Errc::kConnectionLost:
        return "the HTTP/2 connection has ended";
      case Http2Errc::kProtocolError:
        return "the peer breaks HTTP/2";
      case Http2Errc::kFlooded:
        return "the peer makes too much work";
      case Http2Errc::kHeadersTooLarge:
        return "the header fields are too large";
      case Http2Errc::kBadField:
        return "a header field cannot be sent";
      case Http2Errc::kWrongOrder:
        return "the stream does not allow this call now";
    }
    return "unknown HTTP/2 error";
  }
};

}  // namespace

const std::error_category& Http2Category() noexcept {
  static const Category category;
  return category;
}

}  // namespace weft::interop
