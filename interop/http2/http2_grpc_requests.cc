// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_requests.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <span>
#include <utility>

#include "weft/interop/grpc/protobuf_fields.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2/http2_grpc_wire.h"
#include "weft/interop/http2_error.h"
#include "weft/version.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostHealth = 1024;  // of a HealthCheckResponse
constexpr std::uint64_t kServing = 1;      // grpc.health.v1's

// HealthCheckResponse: { ServingStatus status = 1; }
bool SaysServing(std::string_view message) {
  ProtobufFields fields(message);
  std::uint64_t status = 0;
  while (fields.Next()) {
    if (fields.tag() == NumberTag(1)) status = fields.number();
  }
  return fields.ok() && status == kServing;
}

// HealthCheckRequest: { string service = 1; }
std::string HealthRequest(std::string_view service) {
  std::string message(GrpcInbox::kHead, '\0');
  AppendBytes(&message, 1, service);
  PutGrpcHead(message.data(), message.size() - GrpcInbox::kHead);
  return message;
}

}  // namespace

Http2RequestHead MakeGrpcHead(const GrpcWhere& where, Deadline deadline, std::size_t again,
                              const Http2Headers& metadata) {
  Http2Headers fields{{"te", "trailers"}, {"content-type", "application/grpc"}};
  if (!deadline.is_none()) fields.Add("grpc-timeout", FormatGrpcTimeout(std::max(deadline.remaining(), 1ns)));
  fields.Add("grpc-accept-encoding", "identity,gzip");
  fields.Add("user-agent", "grpc-c++-weft/" WEFT_VERSION);
  if (again != 0) fields.Add("grpc-previous-rpc-attempts", std::to_string(again));
  for (const Http2Field field : metadata) fields.Add(field.name, field.value);
  return {.method = "POST",
          .path = where.path,
          .authority = where.authority,
          .scheme = where.scheme,
          .headers = std::move(fields)};
}

std::optional<GrpcStatus> GrpcStatusOfHead(const Http2Headers& head) {
  if (std::optional<GrpcStatus> status = GrpcStatusIn(head)) return status;
  const std::string_view text = head.Find(":status");
  if (text != "200") {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return GrpcStatusOfHttp(number);
  }
  const std::string_view type = head.Find("content-type");
  if (IsGrpc(type)) return {};
  return GrpcStatus{GrpcCode::kUnknown, std::string("an answer that is none of gRPC, but ").append(type)};
}

GrpcStatus GrpcStatusOfTrailers(const Http2Headers& trailers) {
  if (std::optional<GrpcStatus> status = GrpcStatusIn(trailers)) return *std::move(status);
  return {GrpcCode::kUnknown, "an answer without grpc-status"};
}

bool ForbidsGrpcRetry(const Http2Headers& head, const Http2Headers& trailers) {
  constexpr std::string_view kPushback = "grpc-retry-pushback-ms";
  if (!head.Has(kPushback) && !trailers.Has(kPushback)) return false;
  const std::string_view text = head.Has(kPushback) ? head.Find(kPushback) : trailers.Find(kPushback);
  return text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos;
}

GrpcStatus GrpcStatusOfCall(std::error_code error, std::uint32_t reset_code, Deadline deadline) {
  GrpcStatus status = GrpcStatusOf(error, reset_code);
  const bool may_be_late = status.code == GrpcCode::kCancelled || error == std::errc::timed_out;
  if (may_be_late && deadline.expired()) return {GrpcCode::kDeadlineExceeded, "the deadline has passed"};
  return status;
}

GrpcCode WatchGrpcHealth(Http2Client& http, GrpcWhere where, std::string_view service, std::atomic<bool>* serving) {
  where.path = "/grpc.health.v1.Health/Watch";
  const Deadline as_long_as = AsLongAs({});
  Http2Call call;
  std::error_code error = http.Open(MakeGrpcHead(where, {}, 0, {}), &call, as_long_as);
  if (!error) call.CancelOnGoAway();
  if (!error) error = call.Write(HealthRequest(service), as_long_as).error;
  if (!error) error = call.Finish();
  if (!error) error = call.AwaitAnswer(as_long_as);
  if (error) return GrpcStatusOf(error, 0).code;
  if (const std::optional<GrpcStatus> status = GrpcStatusOfHead(call.headers())) return status->code;
  GrpcInbox inbox(kMostHealth);
  for (;;) {
    std::string_view message;
    switch (inbox.Take(&message)) {
      case GrpcInbox::Took::kMessage:
        serving->store(SaysServing(message), std::memory_order_relaxed);  // A hint.
        continue;
      case GrpcInbox::Took::kFailed:
        return inbox.failure().code;
      case GrpcInbox::Took::kNeedsMore:
        break;
    }
    const std::span<char> room = inbox.Room();
    const io::IoResult got = call.Read(room.data(), room.size(), as_long_as);
    inbox.Put(got.bytes);
    if (got.bytes != 0) continue;
    return got.ok() ? GrpcStatusOfTrailers(call.trailers()).code : GrpcStatusOf(got.error, 0).code;
  }
}

}  // namespace weft::interop
