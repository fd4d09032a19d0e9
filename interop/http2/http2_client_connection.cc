// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_client_connection.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_authority.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/cancel_scope.h"

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
  auto started = Fiber::TryStart({.name = "http2_client"}, [this] { static_cast<void>(Run(Stay::kUntilOver)); });
  if (!started.has_value()) return false;
  reader_ = std::move(*started);
  return true;
}

void Http2ClientConnection::Close() {
  Lock lock(mutex_);
  if (!ended_ && !over()) Terminate(NGHTTP2_NO_ERROR, Http2Errc::kConnectionLost);
}

bool Http2ClientConnection::is_open() {
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
  *stream = made.get();
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
  return error;
}

void Http2ClientConnection::Cancel(Http2Stream& stream) {
  Lock lock(mutex_);
  if (stream.closed) return;
  SubmitReset(stream, NGHTTP2_CANCEL, std::make_error_code(std::errc::operation_canceled));
  Flush(lock);
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

}  // namespace weft::interop
