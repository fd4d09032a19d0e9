// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_grpc_health.h"

#include <cstddef>
#include <mutex>

#include "weft/interop/grpc/protobuf_fields.h"

namespace weft::interop {

// HealthCheckRequest: { string service = 1; }
struct Http2GrpcHealth::Request {
  std::string service;

  bool ParseFromArray(const void* data, int size) {
    ProtobufFields fields({static_cast<const char*>(data), static_cast<std::size_t>(size)});
    while (fields.Next()) {
      if (fields.tag() == BytesTag(1)) service = fields.bytes();
    }
    return fields.ok();
  }
};

// HealthCheckResponse: { ServingStatus status = 1; }
struct Http2GrpcHealth::Reply {
  Status status{};

  std::size_t ByteSizeLong() const { return 2; }
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const {
    *to++ = NumberTag(1);
    *to++ = static_cast<std::uint8_t>(status);
    return to;
  }
};

Http2GrpcHealth::Http2GrpcHealth() : services_{{"", Status::kServing}} {}

void Http2GrpcHealth::AddTo(Http2GrpcService* service) {
  service->AddUnary<Request, Reply>(
      "/grpc.health.v1.Health/Check",
      [this](GrpcCall&, const Request& request, Reply* reply) { return Check(request.service, reply); });
  service->Add("/grpc.health.v1.Health/Watch", [this](GrpcCall& call) { return Watch(call); });
}

void Http2GrpcHealth::SetServing(std::string_view service, bool serving) {
  const std::scoped_lock lock(mutex_);
  if (is_shut_down_) return;
  services_[std::string(service)] = serving ? Status::kServing : Status::kNotServing;
  changed_.notify_all();
}

void Http2GrpcHealth::Shutdown() {
  const std::scoped_lock lock(mutex_);
  is_shut_down_ = true;
  for (auto& [service, status] : services_) status = Status::kNotServing;
  changed_.notify_all();
}

Http2GrpcHealth::Status Http2GrpcHealth::StatusOf(std::string_view service) const {
  const auto found = services_.find(service);
  return found == services_.end() ? Status::kServiceUnknown : found->second;
}

GrpcStatus Http2GrpcHealth::Check(std::string_view service, Reply* reply) {
  const std::scoped_lock lock(mutex_);
  reply->status = StatusOf(service);
  if (reply->status != Status::kServiceUnknown) return {};
  return {GrpcCode::kNotFound, std::string("no service ").append(service)};
}

GrpcStatus Http2GrpcHealth::Watch(GrpcCall& call) {
  Request request;
  if (!call.Read(&request)) return {GrpcCode::kInvalidArgument, "a watch of nothing"};
  Reply told;
  std::unique_lock lock(mutex_);
  for (;;) {
    // A client that leaves cancels the wait.
    changed_.wait(lock, [&] { return is_shut_down_ || StatusOf(request.service) != told.status; });
    const bool is_last = is_shut_down_;
    // A message would make clients of gRPC ask again at once, and not after a pause.
    if (is_last && told.status == Status{}) return {GrpcCode::kUnavailable, "the server ends"};
    told.status = StatusOf(request.service);
    lock.unlock();
    if (!call.Write(told)) return {GrpcCode::kCancelled};
    if (is_last) return {GrpcCode::kUnavailable, "the server ends"};
    lock.lock();
  }
}

}  // namespace weft::interop
