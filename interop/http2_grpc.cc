// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_grpc.h"

#include <algorithm>
#include <exception>

#include "weft/base/report/log.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

GrpcStatus Run(const Http2GrpcService::Method& method, GrpcCall& call) {
  try {
    return method(call);
  } catch (const FiberCancelled&) {
    throw;
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2GrpcService: the handler of ", call.method(), " has thrown: ", error.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2GrpcService: the handler of ", call.method(),
                          " has thrown something that is no std::exception");
  }
  return {GrpcCode::kUnknown, "the handler has thrown an exception"};
}

}  // namespace

Http2GrpcService::Http2GrpcService(const Options& options)
    : options_{.max_message = std::min(options.max_message, GrpcCall::kMostMessage)} {}

std::set<std::string> Http2GrpcService::services() const {
  std::set<std::string> services;
  for (const auto& [path, method] : methods_) {
    const std::size_t end = path.rfind('/');
    if (end == std::string::npos || end == 0 || path.front() != '/') continue;  // No client can call it.
    services.insert(path.substr(1, end - 1));
  }
  return services;
}

void Http2GrpcService::Serve(Http2Request& request, Http2Response& response) {
  // Of an error nobody is left to be told.
  if (request.method() != "POST") return static_cast<void>(response.Send(405, {{"allow", "POST"}}, {}));
  if (!IsGrpc(request.headers().Find("content-type"))) return static_cast<void>(response.Send(415, {}, {}));
  GrpcCall call(request, response, options_.max_message);
  call.Finish(Call(call));
}

GrpcStatus Http2GrpcService::Call(GrpcCall& call) {
  const auto found = methods_.find(call.method());
  if (found == methods_.end()) return {GrpcCode::kUnimplemented, std::string("no method ").append(call.method())};
  const std::string_view encoding = call.metadata().Find("grpc-encoding");
  call.uses_gzip_ = encoding == "gzip";
  if (!encoding.empty() && encoding != "identity" && !call.uses_gzip_) {
    call.AddMetadata("grpc-accept-encoding", "identity,gzip");
    return {GrpcCode::kUnimplemented, std::string("messages compressed by ").append(encoding)};
  }
  if (!call.SetDeadline()) return {GrpcCode::kInternal, "a grpc-timeout that is none"};
  if (call.deadline().is_none()) return Run(found->second, call);
  GrpcStatus status;
  CancelScope scope(call.deadline());
  const bool in_time = !call.deadline().expired() && scope.Run([&] { status = Run(found->second, call); });
  // A handler may have caught what ended its wait.
  if (!in_time || (scope.DeadlineHasPassed() && !status.ok())) {
    return {GrpcCode::kDeadlineExceeded, "the handler was ended at the deadline"};
  }
  return status;
}

}  // namespace weft::interop
