// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_grpc.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2/http2_grpc_wire.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

// A point in time that no call sees: a wait without a deadline would end after the server's stream_timeout.
Deadline WithTheCall() { return Deadline::TimePoint(std::chrono::nanoseconds::max() / 2); }

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

bool GrpcCall::SetDeadline() {
  if (!metadata().Has("grpc-timeout")) return true;
  const std::optional<std::chrono::nanoseconds> timeout = ParseGrpcTimeout(metadata().Find("grpc-timeout"));
  if (timeout.has_value()) deadline_ = Deadline(*timeout);
  return timeout.has_value();
}

bool GrpcCall::ReadBytes(std::string_view* message) {
  TestCancel();
  if (failed()) return false;
  for (;;) {
    switch (in_.Take(message)) {
      case GrpcInbox::Took::kMessage:
        return true;
      case GrpcInbox::Took::kFailed:
        Fail(in_.failure());
        return false;
      case GrpcInbox::Took::kNeedsMore:
        if (!ReadMore()) return false;
    }
  }
}

bool GrpcCall::AwaitEnd() {
  if (in_.has_part() || ReadMore()) Fail({GrpcCode::kUnimplemented, "more than one message in a unary call"});
  return !failed();
}

bool GrpcCall::ReadMore() {
  const std::span<char> room = in_.Room();
  const io::IoResult got = request_.Read(room.data(), room.size(), WithTheCall());
  in_.Put(got.bytes);
  if (got.bytes != 0) return true;
  if (!got.ok()) {
    TestCancel();  // The client has given the call up, or has gone: then the handler is cancelled.
    Fail({GrpcCode::kUnavailable, std::string("the client's messages do not come: ").append(got.error.message())});
  } else if (in_.has_part()) {
    Fail({GrpcCode::kInternal, "a message was cut short"});
  }
  return false;
}

char* GrpcCall::MakeRoom(std::size_t size) {
  if (failed()) return nullptr;
  if (size > kMostMessage) {
    Fail({GrpcCode::kInternal, std::string("an answer of ").append(std::to_string(size)).append(" bytes")});
    return nullptr;
  }
  const std::size_t begin = out_.size();
  out_.resize(begin + GrpcInbox::kHead + size);
  char* const to = out_.data() + begin;
  PutGrpcHead(to, size);
  return to + GrpcInbox::kHead;
}

bool GrpcCall::WriteBytes(std::string_view message) {
  char* const to = MakeRoom(message.size());
  if (to == nullptr) return false;
  if (!message.empty()) std::memcpy(to, message.data(), message.size());
  return Flush();
}

Http2Headers GrpcCall::Head() const {
  Http2Headers head{{"content-type", "application/grpc"}};
  for (const Http2Field field : metadata_) head.Add(field.name, field.value);
  return head;
}

bool GrpcCall::SendMetadata() {
  TestCancel();
  if (failed() || cut_off_) return false;
  if (response_.started()) return true;
  const std::error_code error = HasReservedField(metadata_) ? Http2Errc::kBadField : response_.Start(200, Head());
  if (!error) return true;
  if (error == Http2Errc::kBadField) {
    metadata_.clear();
    Fail({GrpcCode::kInternal, "metadata of the answer that may not be sent"});
    return false;
  }
  cut_off_ = true;
  TestCancel();
  return false;
}

bool GrpcCall::Flush() {
  if (!SendMetadata()) {
    out_.clear();
    return false;
  }
  cut_off_ = true;  // Unless it ends well, by an exception or otherwise.
  cut_off_ = !response_.Write(out_, WithTheCall()).ok();
  out_.clear();
  if (cut_off_) TestCancel();
  return !cut_off_;
}

void GrpcCall::Fail(GrpcStatus status) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.has_value()) failure_ = std::move(status);
}

bool GrpcCall::failed() {
  const std::scoped_lock lock(mutex_);
  return failure_.has_value();
}

void GrpcCall::Finish(GrpcStatus status) {
  if (failure_.has_value()) status = *std::move(failure_);
  if (cut_off_) return response_.Reset();
  if (!status.ok()) out_.clear();
  std::error_code error = SendEnd(status);
  if (error == Http2Errc::kBadField) {
    metadata_.clear();
    trailers_.clear();
    out_.clear();
    error = SendEnd({GrpcCode::kInternal, "metadata or trailers of the answer that may not be sent"});
  }
  if (error == std::errc::timed_out) response_.Reset();  // The client has not taken the reply by its deadline.
}

std::error_code GrpcCall::SendEnd(const GrpcStatus& status) {
  if (HasReservedField(metadata_) || HasReservedField(trailers_)) return Http2Errc::kBadField;
  Http2Headers end;
  end.Add("grpc-status", std::to_string(static_cast<int>(status.code)));
  if (!status.message.empty()) end.Add("grpc-message", EncodeGrpcText(status.message));
  for (const Http2Field field : trailers_) end.Add(field.name, field.value);
  if (response_.started()) return response_.Finish(end);
  Http2Headers head = Head();
  if (!out_.empty()) return response_.Send(200, head, out_, end, deadline_.is_none() ? WithTheCall() : deadline_);
  for (const Http2Field field : end) head.Add(field.name, field.value);  // Nothing but trailers.
  return response_.Send(200, head, {});
}

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
  if (encoding == "gzip") {
    call.in_.AllowGzip();
  } else if (!encoding.empty() && encoding != "identity") {
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
