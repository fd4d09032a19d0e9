// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_grpc_health.h"

#include <cstddef>
#include <mutex>
#include <optional>

namespace weft::interop {
namespace {

// Protobuf's encoding, as far as HealthCheckRequest may use it: { string service = 1; }, and fields of later versions.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  // nullopt: there is none.
  std::optional<std::uint64_t> TakeVarint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      number |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return number;
    }
    return {};
  }
  std::optional<std::string_view> TakeBytes(std::uint64_t size) {
    if (size > bytes_.size()) return {};
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }
  std::optional<std::string_view> TakeValue(std::uint64_t wire_type) {
    switch (wire_type) {
      case 0:
        return TakeVarint() ? std::optional<std::string_view>("") : std::nullopt;
      case 1:
        return TakeBytes(8);
      case 2: {
        const std::optional<std::uint64_t> size = TakeVarint();
        return size ? TakeBytes(*size) : std::nullopt;
      }
      case 5:
        return TakeBytes(4);
      default:
        return {};
    }
  }

 private:
  std::string_view bytes_;
};

}  // namespace

struct Http2GrpcHealth::Request {
  std::string service;

  bool ParseFromArray(const void* data, int size) {
    Fields fields({static_cast<const char*>(data), static_cast<std::size_t>(size)});
    while (!fields.empty()) {
      const std::optional<std::uint64_t> tag = fields.TakeVarint();
      if (!tag) return false;
      const std::optional<std::string_view> value = fields.TakeValue(*tag & 7);
      if (!value) return false;
      if (*tag == (1 << 3 | 2)) service = *value;
    }
    return true;
  }
};

// HealthCheckResponse: { ServingStatus status = 1; }
struct Http2GrpcHealth::Reply {
  Status status{};

  std::size_t ByteSizeLong() const { return 2; }
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const {
    *to++ = 1 << 3;
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
