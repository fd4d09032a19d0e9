// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Whether a request is a call of gRPC.
#ifndef WEFT_INTEROP_GRPC_HTTP2_GRPC_TYPE_H_
#define WEFT_INTEROP_GRPC_HTTP2_GRPC_TYPE_H_

#include <string_view>

namespace weft::interop {

inline bool IsGrpc(std::string_view content_type) {
  constexpr std::string_view kGrpc = "application/grpc";
  if (!content_type.starts_with(kGrpc)) return false;
  const std::string_view rest = content_type.substr(kGrpc.size());
  return rest.empty() || rest[0] == '+' || rest[0] == ';';
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_GRPC_HTTP2_GRPC_TYPE_H_
