// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the fields of a request say: IsGrpc(), whether it is a call of gRPC; HostFits(), whether its field `host` names
// what its :authority names. Another one makes it malformed (RFC 9113, 8.3.1). Letters may have any case, and the
// scheme's own port may be left out (RFC 3986, 6.2). And what we send: MayBeSent(), by the rules of http2_headers.h.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_FIELDS_H_
#define WEFT_INTEROP_HTTP2_HTTP2_FIELDS_H_

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>

#include "weft/interop/http2_headers.h"

namespace weft::interop {

inline bool IsGrpc(std::string_view content_type) {
  constexpr std::string_view kGrpc = "application/grpc";
  if (!content_type.starts_with(kGrpc)) return false;
  const std::string_view rest = content_type.substr(kGrpc.size());
  return rest.empty() || rest[0] == '+' || rest[0] == ';';
}

inline bool SameLetters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

inline std::string_view WithoutUsualPort(std::string_view scheme, std::string_view authority) {
  const std::size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos) return authority;
  const std::string_view port = authority.substr(colon + 1);
  const std::string_view usual = SameLetters(scheme, "https") ? "443" : SameLetters(scheme, "http") ? "80" : "";
  return port.empty() || port == usual ? authority.substr(0, colon) : authority;
}

// True, too, if there is no such field.
inline bool HostFits(std::string_view scheme, std::string_view authority, const Http2Headers& fields) {
  if (!fields.Has("host")) return true;
  const std::string_view host = fields.Find("host");
  return SameLetters(WithoutUsualPort(scheme, authority), WithoutUsualPort(scheme, host));
}

// Of a user's fields, which follow `first`.
bool MayBeSent(const Http2Headers& fields, std::span<const Http2Field> first = {});

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_FIELDS_H_
