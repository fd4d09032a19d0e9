// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What gRPC writes into header fields and trailers, for servers and clients: texts, time-outs, statuses.
// Sources: grpc/grpc, doc/PROTOCOL-HTTP2.md, doc/http-grpc-status-mapping.md. Any thread; nothing waits.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_WIRE_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_WIRE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/interop/http2_grpc_status.h"
#include "weft/interop/http2_headers.h"

namespace weft::interop {

// A field of gRPC's own is among these, which users' metadata may not be.
bool HasReservedField(const Http2Headers& fields);

// grpc-message: each byte that is not printable ASCII, and the percent sign, is %XX. Cut after 2,048 bytes of text.
std::string EncodeGrpcText(std::string_view text);
// What is no %XX stays as it is.
std::string DecodeGrpcText(std::string_view text);

// grpc-timeout: at most eight digits and a unit. None: it is no time-out.
std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text);
// Never shorter than `timeout`, which is above 0.
std::string FormatGrpcTimeout(std::chrono::nanoseconds timeout);

// What the fields say by grpc-status and grpc-message. None: there is no grpc-status. One that is no number of gRPC is
// kUnknown.
std::optional<GrpcStatus> GrpcStatusIn(const Http2Headers& fields);
// Of an answer that says nothing of gRPC.
GrpcStatus GrpcStatusOfHttp(int status);
// Of a call that has failed. `reset_code`: of a kStreamReset.
GrpcStatus GrpcStatusOf(std::error_code error, std::uint32_t reset_code);

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_WIRE_H_
