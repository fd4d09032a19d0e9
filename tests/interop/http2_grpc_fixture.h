// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Calls of gRPC as they stand in HTTP/2.
#ifndef WEFT_TESTS_INTEROP_HTTP2_GRPC_FIXTURE_H_
#define WEFT_TESTS_INTEROP_HTTP2_GRPC_FIXTURE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/interop/http2_client.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {

inline std::string MessageOf(std::string_view text, char compressed = 0) {
  return std::string(1, compressed).append(Number32(static_cast<std::uint32_t>(text.size()))).append(text);
}

inline Http2RequestHead GrpcHead(std::string_view path, const Http2Headers& more = {}) {
  Http2Headers headers{{"content-type", "application/grpc"}, {"te", "trailers"}};
  for (const Http2Field field : more) headers.Add(field.name, field.value);
  return {.method = "POST", .path = path, .authority = "weft.example", .headers = headers};
}

// A call that ends with nothing but a status has it in its header fields.
inline const Http2Headers& GrpcEndOf(const Http2Answer& answer) {
  return answer.headers.Has("grpc-status") ? answer.headers : answer.trailers;
}

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_HTTP2_GRPC_FIXTURE_H_
