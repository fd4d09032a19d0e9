// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/server_connection.h"

#include <google/protobuf/descriptor.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"

namespace weft::rpc {

using google::protobuf::Closure;

namespace {

// Far below a client's limit for a meta.
constexpr std::size_t kMaxErrorText = 4096;

constexpr Deadline AtOnce() { return Deadline::After(std::chrono::nanoseconds(0), {}); }

}  // namespace

// --- ServerCall ---

void ServerCall::Begin() {
  controller_.handler_ = GetFiberId();
  const bool callable = Prepare();
  frame_.block.Reset();
  if (!callable) return Run();
  owners_.store(2, std::memory_order_relaxed);  // Nobody else has it yet.
  scope_.SetDeadline(controller_.deadline_);
  const bool returned =
      scope_.Run([&] { service_->CallMethod(method_, &controller_, request_.get(), answer_.get(), this); });
  // acquire: pairs with the release in Run(), of a handler that was cancelled after its `done`.
  if (!returned && !answered_.load(std::memory_order_acquire)) {
    if (scope_.DeadlineHasPassed()) {
      controller_.SetFailed(DEADLINE_EXCEEDED, "the handler was ended at the deadline");
    } else {
      controller_.SetFailed(CANCELED, "the handler was canceled");
    }
    Run();
  }
  EndOwner();
}

void ServerCall::EndOwner() {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;  // The other's use comes before the end.
  ServerConnection* const connection = connection_;
  delete this;
  connection->EndUse();
}

bool ServerCall::Prepare() {
  Server* const server = connection_->server_;
  RequestMeta meta;
  if (!meta.ParseFromArray(frame_.meta.data(), static_cast<int>(frame_.meta.size()))) {
    server->bad_.fetch_add(1, std::memory_order_relaxed);
    controller_.SetNotBegun(BAD_REQUEST, "the meta is no RequestMeta");
    return false;
  }
  if (meta.timeout_us() != 0) {
    constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
    const std::chrono::microseconds left(static_cast<std::int64_t>(std::min(meta.timeout_us(), kMost)));
    controller_.deadline_ = Deadline::After(left, came_);
    if (controller_.deadline_.expired()) {
      server->late_.fetch_add(1, std::memory_order_relaxed);
      controller_.SetNotBegun(DEADLINE_EXCEEDED, "the time was over before the request's turn came");
      return false;
    }
  }
  if (controller_.IsCanceled()) {
    controller_.SetNotBegun(CANCELED, "canceled before the request's turn came");
    return false;
  }
  service_ = server->FindService(meta.service());
  if (service_ != nullptr) method_ = service_->GetDescriptor()->FindMethodByName(meta.method());
  if (method_ == nullptr) {
    controller_.SetNotBegun(
        NO_SUCH_METHOD, base::StrCat("there is no method ", meta.method(), " of a service ", meta.service(), " here"));
    return false;
  }
  if (meta.attachment_size() > frame_.body.size()) {
    server->bad_.fetch_add(1, std::memory_order_relaxed);
    controller_.SetNotBegun(BAD_REQUEST, "the request's attachment is larger than its frame");
    return false;
  }
  controller_.request_attachment_ = frame_.CutAttachment(meta.attachment_size());
  request_.reset(service_->GetRequestPrototype(method_).New());
  if (!request_->ParseFromArray(frame_.body.data(), static_cast<int>(frame_.body.size()))) {
    server->bad_.fetch_add(1, std::memory_order_relaxed);
    controller_.SetNotBegun(BAD_REQUEST, base::StrCat("the request is no ", request_->GetTypeName()));
    return false;
  }
  answer_.reset(service_->GetResponsePrototype(method_).New());
  return true;
}

void ServerCall::Run() {
  answered_.store(true, std::memory_order_release);
  OutFramePtr frame;
  if (!controller_.Failed()) {
    Attachment& attachment = controller_.answer_attachment_;
    const std::size_t size = answer_->ByteSizeLong() + attachment.ByteSize();
    if (size <= connection_->server_->options_.limits.max_body) {
      std::optional<AnswerMeta> meta;
      if (!attachment.Empty()) meta.emplace().set_attachment_size(static_cast<std::uint32_t>(attachment.ByteSize()));
      frame =
          MakeFrame(FrameKind::kAnswer, id_, meta.has_value() ? &*meta : nullptr, answer_.get(), std::move(attachment));
    } else {
      controller_.SetFailed(TOO_LARGE, base::StrCat("the answer has ", size, " bytes"));
    }
  }
  if (controller_.Failed()) {
    AnswerMeta meta;
    meta.set_error_code(controller_.error_code());
    meta.set_error_text(controller_.ErrorText().substr(0, kMaxErrorText));
    meta.set_not_begun(controller_.not_begun());
    frame = MakeFrame(FrameKind::kAnswer, id_, &meta, nullptr);
  }
  ServerConnection* const connection = connection_;
  Server* const server = connection->server_;
  connection->Forget(this);
  static_cast<void>(connection->writer_.Write(std::move(frame)));  // Failed: the client has gone.
  if (Closure* const callback = controller_.MarkEnded()) {
    Shielded([callback] { callback->Run(); });
  }
  server->EndCall(memory());
  EndOwner();
}

void ServerCall::Refuse(ErrorCode code, const std::string& text) {
  controller_.SetNotBegun(code, text);
  Run();
}

std::size_t ServerCall::memory() const { return Server::MemoryOf(frame_.header); }

// --- ServerConnection ---

ServerConnection::ServerConnection(Server* server, io::TcpStream* stream)
    : server_(server),
      stream_(stream),
      writer_(this, stream, server->options_.writing),
      heard_at_(std::chrono::steady_clock::now()),
      idle_since_(heard_at_.load(std::memory_order_relaxed)) {}

ServerConnection::~ServerConnection() {
  WEFT_CHECK(!hook.linked(), "rpc::ServerConnection: destroyed while its server may use it (SC7)");
}

void ServerConnection::BeginUse() noexcept {
  uses_.fetch_add(1, std::memory_order_relaxed);  // The caller has one.
}

void ServerConnection::EndUse() noexcept {
  // acq_rel: the last one hands End() what all others did.
  if (uses_.fetch_sub(1, std::memory_order_acq_rel) == 1) unused_.Set();
}

io::AfterRequest ServerConnection::Greet() {
  return server_->Enter(this) ? io::AfterRequest::kWaitForNext : End(Next::kEnd);
}

io::AfterRequest ServerConnection::Serve() {
  heard_at_.store(std::chrono::steady_clock::now(),
                  std::memory_order_relaxed);  // The sweep sees this, or that there are bytes.
  Next next = Next::kReadOn;
  while (next == Next::kReadOn) next = ReadOnce(AtOnce());
  if (next != Next::kSilent) return End(next);
  Rest();
  return io::AfterRequest::kWaitForNext;
}

void ServerConnection::SayGoodbye() {
  if (!told_idle_.exchange(true, std::memory_order_relaxed)) {
    server_->idle_.fetch_add(1, std::memory_order_relaxed);
    SayFarewell(FarewellReason::kIdle);
  }
  // What the client has sent before it has read that is answered.
  Next next = Next::kReadOn;
  while (next == Next::kReadOn || (next == Next::kSilent && HasCalls())) next = ReadOnce(kLingerFor);
  static_cast<void>(End(next == Next::kSilent ? Next::kEnd : next));
}

void ServerConnection::Rest() {
  GiveReaderBack();
  const std::scoped_lock lock(mutex_);
  if (!HasCalls()) many_calls_.reset();
}

void ServerConnection::GiveReaderBack() {
  if (reader_ != nullptr && reader_->AtBoundary()) server_->GiveBack(std::move(reader_));
}

io::AfterRequest ServerConnection::End(Next why) {
  EndFrame();  // SC6
  heard_at_.store(kDoesNotRead, std::memory_order_relaxed);
  const bool by_us = server_->cut() || ended_idle_.load(std::memory_order_relaxed);
  if (why == Next::kEnd && !by_us) CancelAll();
  if (why == Next::kEnd) GiveReaderBack();
  AwaitCalls();          // In the list, so that Stop() can cancel them.
  server_->Leave(this);  // While we have a use: a thread that finds us there may begin one.
  EndUse();
  unused_.Wait();
  if (why == Next::kEndAfterError) Linger();
  server_->AddToPast(writer_.counts(), reads_);
  return io::AfterRequest::kClose;
}

void ServerConnection::AwaitCalls() {
  FiberEvent none_is_left;
  {
    const std::scoped_lock lock(mutex_);
    if (!HasCalls()) return;
    no_calls_ = &none_is_left;
  }
  none_is_left.Wait();
  const std::scoped_lock lock(mutex_);  // Whoever has set it has let go of it.
  no_calls_ = nullptr;
}

ServerConnection::Next ServerConnection::ReadOnce(Deadline until) {
  if (reader_ == nullptr) reader_ = server_->TakeReader();
  const std::span<char> room = reader_->Room();
  const io::IoResult result = stream_->ReadSome(room.data(), room.size(), until);
  if (result.error == std::errc::timed_out) return Next::kSilent;  // TCP's own time-out is found again, as the end.
  if (!result.ok() || result.bytes == 0) return Next::kEnd;
  ++reads_;
  reader_->Filled(result.bytes);
  const auto now = std::chrono::steady_clock::now();
  heard_at_.store(now, std::memory_order_relaxed);
  for (;;) {
    Frame frame;
    const FrameReader::Result next = reader_->Next(&frame);
    if (next == FrameReader::Result::kNeedMore) break;
    if (next == FrameReader::Result::kFrame && OnFrame(frame, now)) {
      EndFrame();
      continue;
    }
    StartCalls();
    server_->bad_.fetch_add(1, std::memory_order_relaxed);
    if (next == FrameReader::Result::kTooLarge && frame.header.kind == FrameKind::kRequest) {
      Answer(frame.header.correlation_id, TOO_LARGE, reader_->error());
    }
    return Next::kEndAfterError;
  }
  if (!reader_->AtBoundary()) BeginFrame();
  StartCalls();
  WaitForRoom();
  return Next::kReadOn;
}

void ServerConnection::WaitForRoom() {
  if (!writer_.TooMuchUnsent()) return;
  heard_at_.store(kDoesNotRead, std::memory_order_relaxed);
  writer_.WaitForRoom();
  const auto now = std::chrono::steady_clock::now();
  idle_since_.store(now, std::memory_order_relaxed);
  heard_at_.store(now, std::memory_order_relaxed);
}

bool ServerConnection::OnFrame(Frame& frame, TimePoint now) {
  switch (frame.header.kind) {
    case FrameKind::kRequest:
      OnRequest(std::move(frame), now);
      return true;
    case FrameKind::kCancel:
      Cancel(frame.header.correlation_id);
      return true;
    case FrameKind::kPing:
      static_cast<void>(writer_.Write(MakeFrame(FrameKind::kPong, frame.header.correlation_id, nullptr, nullptr)));
      return true;
    case FrameKind::kPong:
      return true;
    case FrameKind::kAnswer:
    case FrameKind::kFarewell:
      break;
  }
  return false;
}

void ServerConnection::BeginFrame() {
  if (!frame_awaited_) frame_awaited_ = server_->BeginFrame();
}

void ServerConnection::EndFrame() {
  if (std::exchange(frame_awaited_, false)) server_->EndFrame();
}

ServerConnection::Due ServerConnection::WhatIsDue(TimePoint now) {
  if (given_up_ || heard_at_.load(std::memory_order_relaxed) == kDoesNotRead) return Due::kNothing;  // SC8
  if (const Due due = WhatSilenceMakesDue(now); due != Due::kNothing) return due;
  const bool told = told_idle_at_ != kNever;
  const std::chrono::milliseconds limit = told ? kLingerFor : server_->options_.connections.idle_timeout;
  const TimePoint since = std::max(idle_since_.load(std::memory_order_relaxed), told_idle_at_);
  if (limit.count() <= 0 || now - since < limit) return Due::kNothing;
  return told ? Due::kEndIdle : Due::kTellIdle;  // Told, and the client has not closed.
}

ServerConnection::Due ServerConnection::WhatSilenceMakesDue(TimePoint now) {
  const Heartbeat::Options& limits = server_->options_.heartbeat;
  const TimePoint heard = heard_at_.load(std::memory_order_relaxed);
  if (limits.ping_after.count() <= 0) return Due::kNothing;
  if (asked_at_ <= heard) return now - heard < limits.ping_after ? Due::kNothing : Due::kPing;
  return now - asked_until_ < limits.timeout ? Due::kNothing : Due::kGiveUp;
}

bool ServerConnection::HasUnreadBytes() const {
  pollfd unread{.fd = stream_->fd(), .events = POLLIN, .revents = 0};
  return ::poll(&unread, 1, 0) > 0;
}

// Later than WhatIsDue(): others have been asked meanwhile, and the reader has gone on.
void ServerConnection::Do(Due due) {
  switch (due) {
    case Due::kNothing:
      return;
    case Due::kPing:
      return Ask();
    case Due::kGiveUp:
      return GiveUp();
    case Due::kTellIdle:
    case Due::kEndIdle:
      return EndIdle(due);
  }
}

void ServerConnection::Ask() {
  OutFramePtr ping = MakeFrame(FrameKind::kPing, 0, nullptr, nullptr);
  asked_at_ = std::chrono::steady_clock::now();
  static_cast<void>(writer_.Write(std::move(ping), /*alone=*/true));  // Failed: the reader learns of it.
  asked_until_ = std::chrono::steady_clock::now();
}

void ServerConnection::GiveUp() {
  if (HasUnreadBytes() || heard_at_.load(std::memory_order_relaxed) > asked_at_) {
    asked_at_ = kNever;  // It is asked again.
    return;
  }
  given_up_ = true;
  server_->vanished_.fetch_add(1, std::memory_order_relaxed);
  static_cast<void>(stream_->Shutdown());  // Answers that wait to be sent have nobody to go to.
}

void ServerConnection::EndIdle(Due due) {
  if (HasUnreadBytes()) return;
  if (HasCalls()) return idle_since_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  if (due == Due::kEndIdle) {
    ended_idle_.store(true, std::memory_order_relaxed);  // SC9
    return EndReading();
  }
  if (told_idle_.exchange(true, std::memory_order_relaxed)) return;  // SayGoodbye() ends it.
  server_->idle_.fetch_add(1, std::memory_order_relaxed);
  // What the client has sent before it has read that is answered.
  SayFarewell(FarewellReason::kIdle);
  told_idle_at_ = std::chrono::steady_clock::now();
}

void ServerConnection::OnRequest(Frame frame, TimePoint now) {
  idle_since_.store(now, std::memory_order_relaxed);
  const std::uint64_t id = frame.header.correlation_id;
  const std::size_t memory = Server::MemoryOf(frame.header);
  if (const ErrorCode refusal = server_->BeginCall(memory, frame_awaited_); refusal != OK) {
    return Answer(id, refusal, refusal == UNAVAILABLE ? "the server is stopping" : "the server has too much to do");
  }
  BeginUse();
  auto* const call = new ServerCall(this, std::move(frame), now);
  if (Enter(call)) {
    starting_.push_back({call});
    return;
  }
  delete call;
  server_->RefuseCall(memory);
  Answer(id, OVERLOADED, "the connection has too many requests in flight");
  EndUse();
}

bool ServerConnection::Enter(ServerCall* call) {
  const std::size_t most = server_->options_.max_in_flight_per_connection;
  const std::scoped_lock lock(mutex_);
  if (most != 0 && in_flight_ >= most) return false;
  if (in_flight_ >= kFewCalls && many_calls_ == nullptr) {
    many_calls_ = std::make_unique<Calls[]>(kBuckets);
    while (!few_calls_.empty()) {
      ServerCall* const early = few_calls_.pop_front();
      BucketOf(early->id()).push_back(early);
    }
  }
  BucketOf(call->id()).push_back(call);
  in_flight_.store(in_flight_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  if (all_canceled_) static_cast<void>(call->Cancel());  // SC5; it has no callback yet.
  return true;
}

void ServerConnection::StartCalls() {
  if (starting_.empty()) return;
  const bool started =
      starting_.size() == 1 ? StartFiberDetached(starting_.front()) : BatchStartFiberDetached(std::move(starting_));
  if (!started) {
    for (const BeginCall& begin : starting_) begin.call->Refuse(OVERLOADED, "no fiber can be started for the request");
  }
  starting_.clear();
}

void ServerConnection::Cancel(std::uint64_t id) {
  Closure* callback = nullptr;
  {
    const std::scoped_lock lock(mutex_);
    for (ServerCall& call : BucketOf(id)) {
      if (call.id() == id) callback = call.Cancel();
    }
  }
  // In a fiber: it is the handler's code, and we must read on.
  if (callback != nullptr && !StartFiberDetached([callback] { callback->Run(); })) callback->Run();
}

template <class F>
void ServerConnection::ForEachCall(F&& f) {
  for (ServerCall& call : few_calls_) f(call);
  for (Calls& bucket : std::span(many_calls_.get(), many_calls_ == nullptr ? 0 : kBuckets)) {
    for (ServerCall& call : bucket) f(call);
  }
}

void ServerConnection::CancelAll() {
  std::vector<Closure*> callbacks;
  {
    const std::scoped_lock lock(mutex_);
    all_canceled_ = true;
    ForEachCall([&callbacks](ServerCall& call) {
      if (Closure* const callback = call.Cancel()) callbacks.push_back(callback);
    });
  }
  // The caller's scope may be cancelled; the callbacks belong to the handlers.
  Shielded([&callbacks] {
    for (Closure* const callback : callbacks) callback->Run();
  });
}

void ServerConnection::Forget(ServerCall* call) {
  const std::scoped_lock lock(mutex_);
  BucketOf(call->id()).erase(call);
  const std::size_t left = in_flight_.load(std::memory_order_relaxed) - 1;
  in_flight_.store(left, std::memory_order_relaxed);
  if (left == 0 && no_calls_ != nullptr) no_calls_->Set();
}

void ServerConnection::Answer(std::uint64_t id, ErrorCode code, const std::string& text) {
  AnswerMeta meta;
  meta.set_error_code(code);
  meta.set_error_text(text);
  meta.set_not_begun(true);
  static_cast<void>(writer_.Write(MakeFrame(FrameKind::kAnswer, id, &meta, nullptr)));  // Failed: the client has gone.
}

void ServerConnection::SayFarewell(FarewellReason reason) {
  static_cast<void>(
      writer_.Write(MakeFrame(FrameKind::kFarewell, static_cast<std::uint64_t>(reason), nullptr, nullptr)));
}

// Closing a socket with unread bytes resets the connection, and the peer may lose our answer. So read and discard until
// the peer has read our end.
void ServerConnection::Linger() {
  static_cast<void>(stream_->ShutdownWrite());
  const Deadline until = kLingerFor;
  char nowhere[4096];
  for (;;) {
    const io::IoResult result = stream_->ReadSome(nowhere, sizeof(nowhere), until);
    if (!result.ok() || result.bytes == 0 || until.expired()) return;
  }
}

}  // namespace weft::rpc
