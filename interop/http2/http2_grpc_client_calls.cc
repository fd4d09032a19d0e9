// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What users of http2_grpc_client.h call.

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_grpc_caller.h"
#include "weft/interop/http2/http2_grpc_client_stream.h"
#include "weft/interop/http2/http2_grpc_inbox.h"
#include "weft/interop/http2/http2_grpc_wire.h"
#include "weft/interop/http2_grpc_client.h"

namespace weft::interop {
namespace {

// The only message of a unary answer, to parse(reply, message).
GrpcStatus TakeReply(GrpcOutcome* outcome, std::size_t max_message, bool (*parse)(void*, std::string_view),
                     void* reply) {
  GrpcInbox inbox(max_message);
  if (outcome->metadata.Find("grpc-encoding") == "gzip") inbox.AllowGzip();
  inbox.PutWhole(std::move(outcome->body));
  std::string_view message;
  switch (inbox.Take(&message)) {
    case GrpcInbox::Took::kFailed:
      return inbox.failure();
    case GrpcInbox::Took::kNeedsMore:
      return {GrpcCode::kInternal, inbox.has_part() ? "a message was cut short" : "an answer without a message"};
    case GrpcInbox::Took::kMessage:
      break;
  }
  if (inbox.has_part()) return {GrpcCode::kInternal, "more than one message in the answer of a unary call"};
  if (!parse(reply, message)) return {GrpcCode::kInternal, "a message that cannot be parsed"};
  return outcome->status;
}

// While it lives a call is under way.
class CallGuard {
 public:
  explicit CallGuard(GrpcCaller* caller) : caller_(*caller) { caller_.EnterCall(); }
  ~CallGuard() { caller_.LeaveCall(); }
  CallGuard(const CallGuard&) = delete;
  CallGuard& operator=(const CallGuard&) = delete;

 private:
  GrpcCaller& caller_;
};

}  // namespace

GrpcClientCall::GrpcClientCall() = default;
GrpcClientCall::GrpcClientCall(std::unique_ptr<GrpcClientStream> stream) noexcept : stream_(std::move(stream)) {}
GrpcClientCall::~GrpcClientCall() = default;
GrpcClientCall::GrpcClientCall(GrpcClientCall&& other) noexcept = default;
GrpcClientCall& GrpcClientCall::operator=(GrpcClientCall&& other) noexcept = default;

std::string GrpcClientCall::FrameOf(std::size_t size) {
  if (size > GrpcInbox::kMostMessage) return {};
  std::string frame(GrpcInbox::kHead + size, '\0');
  PutGrpcHead(frame.data(), size);
  return frame;
}

GrpcClientStream& GrpcClientCall::Checked(const char* caller) const {
  WEFT_CHECK(stream_ != nullptr, caller, ": the call was not opened");
  return *stream_;
}

bool GrpcClientCall::WriteFramed(std::string_view framed) { return Checked("GrpcClientCall::Write").Write(framed); }

bool GrpcClientCall::WriteBytes(std::string_view message) {
  std::string framed = FrameOf(message.size());
  if (!message.empty() && !framed.empty())
    std::memcpy(framed.data() + GrpcInbox::kHead, message.data(), message.size());
  return WriteFramed(framed);
}

void GrpcClientCall::WritesDone() { Checked("GrpcClientCall::WritesDone").WritesDone(); }

bool GrpcClientCall::ReadBytes(std::string_view* message) { return Checked("GrpcClientCall::Read").Read(message); }

void GrpcClientCall::FailUnparsable() { stream_->Fail({GrpcCode::kInternal, "a message that cannot be parsed"}); }

bool GrpcClientCall::AwaitMetadata() { return Checked("GrpcClientCall::AwaitMetadata").AwaitMetadata(); }

const Http2Headers& GrpcClientCall::metadata() const { return answer().metadata; }

GrpcStatus GrpcClientCall::Finish() { return Checked("GrpcClientCall::Finish").Finish(); }

const GrpcAnswer& GrpcClientCall::answer() const { return Checked("GrpcClientCall::answer").answer(); }

void GrpcClientCall::Cancel() { Checked("GrpcClientCall::Cancel").Cancel(); }

Http2GrpcClient::Http2GrpcClient(std::string_view targets, Options options)
    : caller_(std::make_unique<GrpcCaller>(targets, std::move(options))) {}

Http2GrpcClient::~Http2GrpcClient() = default;

GrpcStatus Http2GrpcClient::CallFramed(std::string_view path, std::string_view framed, Parse parse, void* reply,
                                       const GrpcCallOptions& options, GrpcAnswer* answer) {
  const CallGuard guard(caller_.get());
  caller_->CountCall();
  GrpcOutcome outcome;
  if (framed.empty()) {
    outcome.status = {GrpcCode::kInternal, "a message of 2 GiB or more"};
  } else if (HasReservedField(options.metadata)) {
    outcome.status = {GrpcCode::kInternal, "metadata that may not be sent"};
  } else {
    outcome = caller_->Unary({.path = path,
                              .metadata = options.metadata,
                              .key = options.key,
                              .deadline = caller_->DeadlineOf(options),
                              .policy = caller_->PolicyOf(options)},
                             framed);
  }
  if (outcome.ok()) outcome.status = TakeReply(&outcome, caller_->options().max_message, parse, reply);
  if (answer != nullptr) {
    *answer = {.metadata = std::move(outcome.metadata),
               .trailers = std::move(outcome.trailers),
               .server = std::move(outcome.server),
               .attempts = outcome.attempts};
  }
  return std::move(outcome.status);
}

GrpcStatus Http2GrpcClient::CallBytes(std::string_view path, std::string_view request, std::string* reply,
                                      const GrpcCallOptions& options, GrpcAnswer* answer) {
  std::string framed = GrpcClientCall::FrameOf(request.size());
  if (!request.empty() && !framed.empty())
    std::memcpy(framed.data() + GrpcInbox::kHead, request.data(), request.size());
  const Parse parse = [](void* to, std::string_view message) {
    static_cast<std::string*>(to)->assign(message);
    return true;
  };
  return CallFramed(path, framed, parse, reply, options, answer);
}

GrpcClientCall Http2GrpcClient::Open(std::string_view path, const GrpcCallOptions& options) {
  caller_->CountCall();
  auto stream = std::make_unique<GrpcClientStream>(caller_.get(), path, options);
  stream->Open();
  return GrpcClientCall(std::move(stream));
}

Http2GrpcClient::Counts Http2GrpcClient::counts() const {
  const GrpcTally& tally = caller_->tally();
  // relaxed: a snapshot of statistics.
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  return {.calls = read(tally.calls),
          .attempts = read(tally.attempts),
          .replayed = read(tally.replayed),
          .connected = read(tally.connected),
          .not_connected = read(tally.not_connected),
          .servers = caller_->servers()};
}

}  // namespace weft::interop
