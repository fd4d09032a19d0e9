// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_client.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"

namespace weft::interop {
namespace {

const std::uint8_t* Bytes(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

bool IsGood(const Http2RequestHead& head) {
  return nghttp2_check_method(Bytes(head.method), head.method.size()) != 0 && !head.path.empty() &&
         nghttp2_check_path(Bytes(head.path), head.path.size()) != 0 &&
         nghttp2_check_authority(Bytes(head.authority), head.authority.size()) != 0 &&
         (head.authority.empty() ? head.headers.Has("host") : HostFits(head.scheme, head.authority, head.headers)) &&
         !head.scheme.empty() && nghttp2_check_path(Bytes(head.scheme), head.scheme.size()) != 0;
}

}  // namespace

// The connection of an Http2Client, and its calls.
//
// Invariants, beside those of http2/http2_session.h
//   H2C1  open_ counts streams from their submission until nghttp2 has forgotten them; it is never above what the
//         server allows at the time of the submission.
//   H2C2  A place that becomes free wakes a waiter. A waiter that gives up while a place is free wakes the next one, so
//         no place is lost with it.
//   H2C3  Each handle is counted in calls_ until its last touch of the connection, in one hold of the mutex.
//   H2C4  Pings are numbered upwards, and answers come in order: one ends the waits for all pings up to its number.
class Http2ClientConnection final : public Http2Session {
 public:
  Http2ClientConnection(const Http2Transport& transport, const Http2Options& options)
      : Http2Session(Side::kClient, transport, options) {}
  ~Http2ClientConnection();

  bool Start();
  void Close();
  bool IsOpen();
  std::error_code Ping(Deadline deadline);

  // *stream: with a reference.
  std::error_code Open(const Http2RequestHead& head, bool body, Deadline deadline, Http2Stream** stream);
  std::error_code AwaitAnswer(Http2Stream& stream, Deadline deadline);
  // Sends and receives at the same time: neither side may finish before the other one.
  std::error_code Exchange(Http2Stream& stream, std::string_view body, Deadline deadline, std::size_t max_body,
                           Http2Answer* answer);
  void Cancel(Http2Stream& stream);
  void CancelOnGoAway(Http2Stream& stream);
  // The handle goes.
  void Abandon(Http2Stream* stream);

 private:
  base::RefPtr<Http2Stream> OnBegin() override { return {}; }
  void OnGone(Http2Stream& stream) override;
  void OnGoAway() override;
  void OnSettings() override { places_.notify_all(); }
  void OnPingAnswer(std::uint64_t number) override;
  bool MayPing() const override { return options_.ping_without_calls || !streams_.empty(); }
  std::uint64_t NextPing() override { return ++pings_sent_; }
  void OnEnded() override;
  bool IsIdle() const override { return streams_.empty(); }
  bool OthersMayWrite() const override { return open_ > 1; }

  bool HasPlace() const;
  bool MayOpen() const { return !ended_ && !is_closing() && nghttp2_session_check_request_allowed(session_) != 0; }
  std::error_code AwaitPlace(Lock& lock, Deadline deadline);
  bool Pump(Http2Stream& stream, std::string_view* body, Http2Answer* answer);

  Fiber reader_;
  FiberConditionVariable places_;
  std::uint32_t open_ = 0;
  std::size_t calls_ = 0;
  FiberConditionVariable pings_;
  std::uint64_t pings_sent_ = 0;
  std::uint64_t pings_answered_ = 0;
};

Http2ClientConnection::~Http2ClientConnection() {
  {
    Lock lock(mutex_);
    WEFT_CHECK(calls_ == 0, "Http2Client: destroyed while ", calls_, " Http2Calls are there");
  }
  if (!reader_.Joinable()) return;
  Close();
  Shielded([this] { reader_.Join(); });
}

bool Http2ClientConnection::Start() {
  WEFT_CHECK(!reader_.Joinable(), "Http2Client::Start: called twice");
  auto started = Fiber::TryStart({.name = "http2 client"}, [this] { static_cast<void>(Run(Stay::kUntilOver)); });
  if (!started.has_value()) return false;
  reader_ = std::move(*started);
  return true;
}

void Http2ClientConnection::Close() {
  Lock lock(mutex_);
  if (!ended_ && !over()) Terminate(NGHTTP2_NO_ERROR, Http2Errc::kConnectionLost);
}

bool Http2ClientConnection::IsOpen() {
  Lock lock(mutex_);
  return MayOpen();
}

void Http2ClientConnection::OnGone(Http2Stream&) {
  --open_;
  places_.notify_one();  // H2C2
}

void Http2ClientConnection::OnEnded() {
  places_.notify_all();
  pings_.notify_all();
}

bool Http2ClientConnection::HasPlace() const {
  return open_ < nghttp2_session_get_remote_settings(session_, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);
}

std::error_code Http2ClientConnection::AwaitPlace(Lock& lock, Deadline deadline) {
  for (std::error_code late;; late = Wait(lock, places_, deadline)) {
    if (!MayOpen()) return Http2Errc::kNotBegun;
    if (late) {
      if (HasPlace()) places_.notify_one();  // H2C2
      return late;
    }
    if (HasPlace()) return {};
  }
}

std::error_code Http2ClientConnection::Open(const Http2RequestHead& head, bool body, Deadline deadline,
                                            Http2Stream** stream) {
  if (!IsGood(head)) return Http2Errc::kBadField;
  const Http2Field first[] = {
      {":method", head.method}, {":scheme", head.scheme}, {":path", head.path}, {":authority", head.authority}};
  // An empty authority is none (RFC 9113, 8.3.1).
  const std::span<const Http2Field> fields(first, head.authority.empty() ? 3 : 4);
  Lock lock(mutex_);
  if (std::error_code error = AwaitPlace(lock, OwnOr(deadline))) return error;
  auto made = base::MakeRefCounted<Http2Stream>();
  if (std::error_code error = SubmitFields(*made, fields, head.headers, body)) {
    places_.notify_one();  // H2C2
    return error;
  }
  Enter(*made);
  ++open_;  // H2C1
  ++calls_;
  made->AddRef();
  *stream = made.Get();
  Flush(lock);
  return {};
}

std::error_code Http2ClientConnection::AwaitAnswer(Http2Stream& stream, Deadline deadline) {
  deadline = OwnOr(deadline);
  Lock lock(mutex_);
  for (std::error_code late; !stream.has_fields; late = Wait(lock, stream.changed, deadline)) {
    if (stream.closed) return stream.error ? stream.error : make_error_code(Http2Errc::kConnectionLost);
    if (late) return late;
  }
  return stream.too_large ? make_error_code(Http2Errc::kHeadersTooLarge) : std::error_code();
}

bool Http2ClientConnection::Pump(Http2Stream& stream, std::string_view* body, Http2Answer* answer) {
  bool moved = false;
  if (const std::size_t size = stream.unread(); size != 0) {
    const std::size_t before = answer->body.size();
    answer->body.resize(before + size);
    TakeIn(stream, answer->body.data() + before, size);
    moved = true;
  }
  if (stream.closed || stream.end_wanted) return moved;
  const std::size_t size = std::min(body->size(), RoomIn(stream));
  if (size != 0) {
    PutOut(stream, body->substr(0, size));
    body->remove_prefix(size);
    moved = true;
  }
  if (body->empty()) static_cast<void>(PutEnd(stream, {}));
  return moved || stream.end_wanted;
}

std::error_code Http2ClientConnection::Exchange(Http2Stream& stream, std::string_view body, Deadline deadline,
                                                std::size_t max_body, Http2Answer* answer) {
  deadline = OwnOr(deadline);
  Lock lock(mutex_);
  std::error_code error;
  for (std::error_code late;;) {
    const bool moved = Pump(stream, &body, answer);
    if (moved) Flush(lock);
    if (answer->body.size() > max_body) {
      error = std::make_error_code(std::errc::message_size);
      break;
    }
    if (moved) continue;
    if (stream.too_large) error = Http2Errc::kHeadersTooLarge;
    if (stream.end_received) break;
    error = stream.closed ? stream.error : late;
    if (error) break;
    late = Wait(lock, stream.changed, deadline);
  }
  if (stream.has_fields) {
    const std::string_view status = stream.fields.Find(":status");
    std::from_chars(status.data(), status.data() + status.size(), answer->status);
    answer->headers = stream.fields;
  }
  answer->trailers = stream.trailers;
  answer->reset_code = stream.reset_code;
  return error;
}

void Http2ClientConnection::Cancel(Http2Stream& stream) {
  Lock lock(mutex_);
  if (stream.closed) return;
  SubmitReset(stream, NGHTTP2_CANCEL, std::make_error_code(std::errc::operation_canceled));
  Flush(lock);
}

void Http2ClientConnection::CancelOnGoAway(Http2Stream& stream) {
  Lock lock(mutex_);
  stream.ends_on_goaway = true;
  if (stream.closed || MayOpen()) return;
  SubmitReset(stream, NGHTTP2_CANCEL, Http2Errc::kConnectionLost);
  Flush(lock);
}

// A callback: the reader flushes.
void Http2ClientConnection::OnGoAway() {
  for (Http2Stream& stream : streams_) {
    if (stream.ends_on_goaway && !stream.closed) SubmitReset(stream, NGHTTP2_CANCEL, Http2Errc::kConnectionLost);
  }
  places_.notify_all();
}

void Http2ClientConnection::Abandon(Http2Stream* stream) {
  {
    Lock lock(mutex_);
    stream->drops_body = true;
    if (!stream->closed) {
      SubmitReset(*stream, NGHTTP2_CANCEL, std::make_error_code(std::errc::operation_canceled));
    }
    DropUnread(*stream);  // H2S4
    Flush(lock);
    --calls_;  // H2C3
  }
  stream->Release();
}

std::error_code Http2ClientConnection::Ping(Deadline deadline) {
  deadline = OwnOr(deadline);
  Lock lock(mutex_);
  if (ended_ || is_closing()) return Http2Errc::kConnectionLost;
  const std::uint64_t number = NextPing();
  SubmitPing(number);
  Flush(lock);
  for (std::error_code late; pings_answered_ < number; late = Wait(lock, pings_, deadline)) {  // H2C4
    if (ended_) return Http2Errc::kConnectionLost;
    if (late) return late;
  }
  return {};
}

void Http2ClientConnection::OnPingAnswer(std::uint64_t number) {
  if (number > pings_sent_) return;  // Not ours.
  pings_answered_ = std::max(pings_answered_, number);
  pings_.notify_all();
}

// --- What users call ---

Http2Call::Http2Call(Http2Call&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)),
      deadline_(other.deadline_) {}

Http2Call& Http2Call::operator=(Http2Call&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  connection_ = std::exchange(other.connection_, nullptr);
  stream_ = std::exchange(other.stream_, nullptr);
  deadline_ = other.deadline_;
  return *this;
}

Http2Call::~Http2Call() { Abandon(); }

void Http2Call::Abandon() noexcept {
  if (stream_ != nullptr) connection_->Abandon(std::exchange(stream_, nullptr));
}

Http2Stream& Http2Call::Checked(const char* caller) const {
  WEFT_CHECK(stream_ != nullptr, caller, ": the call was not opened");
  return *stream_;
}

// The call as a whole is given up: by its deadline, or with its fiber.
std::error_code Http2Call::After(std::error_code error) {
  if (error == std::errc::operation_canceled || (error == std::errc::timed_out && deadline_.expired())) Cancel();
  return error;
}

io::IoResult Http2Call::Write(const void* data, std::size_t size, Deadline deadline) {
  io::IoResult put = connection_->Write(Checked("Http2Call::Write"), data, size, std::min(deadline, deadline_));
  put.error = After(put.error);
  return put;
}

std::error_code Http2Call::Finish(const Http2Headers& trailers) {
  return connection_->End(Checked("Http2Call::Finish"), trailers);
}

std::error_code Http2Call::AwaitAnswer(Deadline deadline) {
  return After(connection_->AwaitAnswer(Checked("Http2Call::AwaitAnswer"), std::min(deadline, deadline_)));
}

int Http2Call::status() const {
  const std::string_view text = headers().Find(":status");
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

const Http2Headers& Http2Call::headers() const { return Checked("Http2Call::headers").fields; }

io::IoResult Http2Call::Read(void* data, std::size_t size, Deadline deadline) {
  io::IoResult got = connection_->Read(Checked("Http2Call::Read"), data, size, std::min(deadline, deadline_));
  got.error = After(got.error);
  return got;
}

std::uint32_t Http2Call::reset_code() const { return Checked("Http2Call::reset_code").reset_code; }

const Http2Headers& Http2Call::trailers() const { return Checked("Http2Call::trailers").trailers; }

void Http2Call::Cancel() { connection_->Cancel(Checked("Http2Call::Cancel")); }
void Http2Call::CancelOnGoAway() { connection_->CancelOnGoAway(Checked("Http2Call::CancelOnGoAway")); }

Http2Client::Http2Client(const Http2Transport& transport, const Http2Options& options)
    : options_(options), connection_(std::make_unique<Http2ClientConnection>(transport, options_)) {}

Http2Client::~Http2Client() = default;

bool Http2Client::Start() { return connection_->Start(); }
bool Http2Client::IsOpen() const { return connection_->IsOpen(); }
void Http2Client::Close() { connection_->Close(); }
std::error_code Http2Client::Ping(Deadline deadline) { return connection_->Ping(deadline); }

std::error_code Http2Client::OpenAs(const Http2RequestHead& head, bool body, Http2Call* call, Deadline deadline) {
  Http2Call opened;
  opened.connection_ = connection_.get();
  opened.deadline_ = deadline;
  if (std::error_code error = connection_->Open(head, body, deadline, &opened.stream_)) return error;
  *call = std::move(opened);
  return {};
}

std::error_code Http2Client::Open(const Http2RequestHead& head, Http2Call* call, Deadline deadline) {
  return OpenAs(head, /*body=*/true, call, deadline);
}

std::error_code Http2Client::OpenWithoutBody(const Http2RequestHead& head, Http2Call* call, Deadline deadline) {
  return OpenAs(head, /*body=*/false, call, deadline);
}

Http2Answer Http2Client::Ask(const Http2RequestHead& head, std::string_view body, Deadline deadline,
                             std::size_t max_body) {
  Http2Answer answer;
  Http2Call call;
  answer.error = OpenAs(head, !body.empty(), &call, deadline);
  if (!answer.error) answer.error = connection_->Exchange(*call.stream_, body, deadline, max_body, &answer);
  return answer;
}

}  // namespace weft::interop
