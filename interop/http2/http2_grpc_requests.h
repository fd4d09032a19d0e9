// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a client of gRPC asks, and what answers say: the header fields of a call, the status of an answer, and a watch
// of gRPC's health service.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_GRPC_REQUESTS_H_
#define WEFT_INTEROP_HTTP2_HTTP2_GRPC_REQUESTS_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_grpc_status.h"
#include "weft/interop/http2_headers.h"

namespace weft::interop {

// A wait that lasts as long as the call: without a deadline it would end after Http2Options::stream_timeout.
inline Deadline AsLongAs(Deadline call) {
  return call.is_none() ? Deadline(Deadline::TimePoint(std::chrono::nanoseconds::max() / 2)) : call;
}

// Where a call goes; views.
struct GrpcWhere {
  std::string_view scheme;
  std::string_view authority;
  std::string_view path;
};

// `again`: how often the call has been made before. The head has the views.
Http2RequestHead MakeGrpcHead(const GrpcWhere& where, Deadline deadline, std::size_t again,
                              const Http2Headers& metadata);

// What the header fields of an answer say. A failure is final. None, or kOk: messages and trailers may follow.
std::optional<GrpcStatus> GrpcStatusOfHead(const Http2Headers& head);
// The fields that an answer ends with, which may be its only ones.
inline const Http2Headers& GrpcEnd(const Http2Headers& head, const Http2Headers& trailers) {
  return head.Has("grpc-status") && !trailers.Has("grpc-status") ? head : trailers;
}
// At the end of an answer.
GrpcStatus GrpcStatusOfTrailers(const Http2Headers& trailers);
// The server does not want the call again: grpc-retry-pushback-ms is negative, or no number.
bool ForbidsGrpcRetry(const Http2Headers& head, const Http2Headers& trailers);
// As GrpcStatusOf(); kDeadlineExceeded where the deadline has ended it, here or at the server.
GrpcStatus GrpcStatusOfCall(std::error_code error, std::uint32_t reset_code, Deadline deadline);

// Watches a service by gRPC's health protocol; *serving follows it. `where` has no path. Returns when the watch has
// ended: kUnimplemented, if the server does not have the protocol. operation_canceled is kCancelled.
GrpcCode WatchGrpcHealth(Http2Client& http, GrpcWhere where, std::string_view service, std::atomic<bool>* serving);

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_GRPC_REQUESTS_H_
