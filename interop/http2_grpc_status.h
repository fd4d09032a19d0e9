// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcStatus: how a call of gRPC ends, for servers (interop/http2_grpc.h) and clients (interop/http2_grpc_client.h).
// Sample:
//     const interop::GrpcStatus status{interop::GrpcCode::kInvalidArgument, "no text"};
//     if (!status.ok()) Log(static_cast<int>(status.code), status.message);
//
// A value. Who may call: as a std::string.
#ifndef WEFT_INTEROP_HTTP2_GRPC_STATUS_H_
#define WEFT_INTEROP_HTTP2_GRPC_STATUS_H_

#include <cstdint>
#include <string>

namespace weft::interop {

// gRPC's numbers.
enum class GrpcCode : std::uint8_t {
  // The call has succeeded.
  kOk = 0,
  // Mostly by its caller.
  kCancelled = 1,
  // Also an exception of the handler.
  kUnknown = 2,
  // Bad whatever the state of the server; else kFailedPrecondition.
  kInvalidArgument = 3,
  // It may have been done nevertheless.
  kDeadlineExceeded = 4,
  // What was asked for is not there.
  kNotFound = 5,
  // What was to be made is there.
  kAlreadyExists = 6,
  // The caller is known, and may not.
  kPermissionDenied = 7,
  // A quota, a limit, the memory.
  kResourceExhausted = 8,
  // The server's state is not right for it; to be mended before it is tried again.
  kFailedPrecondition = 9,
  // By another call at the same time; may be tried again from the beginning.
  kAborted = 10,
  // Behind the end of something.
  kOutOfRange = 11,
  // The server has no such method.
  kUnimplemented = 12,
  // An invariant is broken.
  kInternal = 13,
  // May be tried again after a pause.
  kUnavailable = 14,
  // Data cannot be restored.
  kDataLoss = 15,
  // The caller is not known.
  kUnauthenticated = 16,
};

// How a call ends: a number, and a text for people.
struct GrpcStatus {
  GrpcCode code = GrpcCode::kOk;  // kOk: no error.
  std::string message{};          // UTF-8, for people

  // Whether the call has succeeded.
  bool ok() const noexcept { return code == GrpcCode::kOk; }
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_GRPC_STATUS_H_
