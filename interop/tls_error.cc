// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/tls_error.h"

#include <string>

namespace weft::interop {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "weft.tls"; }
  std::string message(int code) const override {
    switch (static_cast<TlsErrc>(code)) {
      case TlsErrc::kTruncated:
        return "the connection has ended without TLS's close_notify";
      case TlsErrc::kHandshakeFailed:
        return "the TLS handshake has failed";
      case TlsErrc::kCertificateRejected:
        return "the peer's certificate was rejected";
      case TlsErrc::kProtocolError:
        return "the peer breaks TLS, or has sent an alert";
    }
    return "unknown TLS error";
  }
};

}  // namespace

const std::error_category& TlsCategory() noexcept {
  static const Category category;
  return category;
}

}  // namespace weft::interop
