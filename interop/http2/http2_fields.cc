// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_fields.h"

#include <nghttp2/nghttp2.h>

#include <cstdint>

namespace weft::interop {
namespace {

constexpr std::size_t kMaxFields = 65'536;

const std::uint8_t* Bytes(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

bool MayBeSent(const Http2Field& field) {
  if (field.name.empty() || field.name[0] == ':') return false;
  if (nghttp2_check_header_name(Bytes(field.name), field.name.size()) == 0) return false;
  if (nghttp2_check_header_value_rfc9113(Bytes(field.value), field.value.size()) == 0) return false;
  for (const std::string_view forbidden :
       {"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}) {
    if (field.name == forbidden) return false;
  }
  return field.name != "te" || field.value == "trailers";
}

}  // namespace

bool MayBeSent(const Http2Headers& fields, std::span<const Http2Field> first) {
  std::size_t bytes = fields.bytes();
  for (const Http2Field& field : first) bytes += 32 + field.name.size() + field.value.size();
  if (bytes > kMaxFields) return false;
  for (const Http2Field field : fields) {
    if (!MayBeSent(field)) return false;
  }
  return true;
}

}  // namespace weft::interop
