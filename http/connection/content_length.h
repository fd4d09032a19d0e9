// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a handler says of its answer: FindLength(), the length of the body by its fields; IsFinal(), whether the status
// is that of an answer.
#ifndef WEFT_HTTP_CONNECTION_CONTENT_LENGTH_H_
#define WEFT_HTTP_CONNECTION_CONTENT_LENGTH_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "weft/interop/http2_headers.h"

namespace weft::http {

// False: it is no number, or there are two of them.
inline bool FindLength(const interop::Http2Headers& fields, std::optional<std::uint64_t>* length) {
  for (const interop::Http2Field field : fields) {
    if (field.name != "content-length") continue;
    if (length->has_value()) return false;
    const char* const last = field.value.data() + field.value.size();
    const auto [end, error] = std::from_chars(field.value.data(), last, length->emplace());
    if (error != std::errc() || end != last) return false;
  }
  return true;
}

inline bool IsFinal(int status) { return status >= 200 && status <= 599; }

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_CONTENT_LENGTH_H_
