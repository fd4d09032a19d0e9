// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Session: nghttp2's callbacks, and how its session is made. All run under the session's mutex (H2S1).

#include "weft/interop/http2/http2_callbacks.h"

#include <algorithm>
#include <cstring>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2_error.h"

// Weak: nullptr in an nghttp2 without such a limit (before 1.57; but Debian's 1.52 has it).
extern "C" [[gnu::weak]] void nghttp2_option_set_stream_reset_rate_limit(nghttp2_option*, std::uint64_t, std::uint64_t);

namespace weft::interop {
namespace {

constexpr std::size_t kFieldCosts = 32;  // RFC 9113, 6.5.2
constexpr double kInterimAnswers = 2;    // that an answer may have: 100 and 103
constexpr std::uint64_t kNoLimit = std::uint64_t{1} << 40;

Http2Stream* StreamOf(nghttp2_session* session, std::int32_t id) {
  return static_cast<Http2Stream*>(nghttp2_session_get_stream_user_data(session, id));
}

std::string_view View(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

bool IsInformational(const Http2Stream& stream) {
  const std::string_view status = stream.fields.Find(":status");
  return !status.empty() && status[0] == '1';
}

std::uint64_t NumberOf(const std::uint8_t (&opaque)[8]) {
  std::uint64_t number;
  std::memcpy(&number, opaque, sizeof(number));
  return number;
}

bool IsGrpcType(std::string_view name, std::string_view value) { return name == "content-type" && IsGrpc(value); }

}  // namespace

bool Http2Session::MayBegin(std::int32_t id) {
  if (side_ == Side::kServer && id > last_begun_) {
    last_begun_ = id;
    return true;
  }
  CountEmpty(1);  // nghttp2 ignores it.
  return side_ == Side::kClient || leaves_streams_out_ || is_closing() || resets_.Take(id);
}

// Before nghttp2 looks for the stream.
int Http2Session::Callbacks::OnBeginFrame(nghttp2_session* session, const nghttp2_frame_hd* head, void* self) noexcept {
  Http2Session* const to = Self(self);
  if (head->type == NGHTTP2_HEADERS || head->type == NGHTTP2_PUSH_PROMISE) {
    to->frames_of_section_ = 0;
    to->fields_of_section_ = 0;
  }
  if (head->type == NGHTTP2_HEADERS) {
    if (nghttp2_session_find_stream(session, head->stream_id) != nullptr) {
      // It may be a stream that has only had a priority, and begins now.
      to->last_begun_ = std::max(to->last_begun_, head->stream_id);
      to->empty_.GiveBack(kForSection);
    } else if (!to->MayBegin(head->stream_id)) {
      return NGHTTP2_ERR_CALLBACK_FAILURE;
    }
  } else if (head->type == NGHTTP2_PUSH_PROMISE) {
    to->CountInVain();
  } else if (head->type != NGHTTP2_CONTINUATION) {
    return 0;
  }
  return to->CountSection(&to->frames_of_section_, head->length) ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Http2Session::Callbacks::OnBeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* self) noexcept {
  // Before our SETTINGS forbid them. The stream is reset.
  if (frame->hd.type == NGHTTP2_PUSH_PROMISE) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  Self(self)->empty_.GiveBack(kForSection);
  const base::RefPtr<Http2Stream> stream = Self(self)->OnBegin();
  if (stream.Get() == nullptr) {
    static_cast<void>(
        nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM));
    return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  }
  stream->id = frame->hd.stream_id;
  nghttp2_session_set_stream_user_data(session, stream->id, stream.Get());
  Self(self)->Enter(*stream);
  return 0;
}

int Http2Session::Callbacks::OnHeader(nghttp2_session* session, const nghttp2_frame* frame, const std::uint8_t* name,
                                      std::size_t name_size, const std::uint8_t* value, std::size_t value_size,
                                      std::uint8_t, void* self) noexcept {
  if (!Self(self)->CountSection(&Self(self)->fields_of_section_, kFieldCosts + name_size + value_size)) {
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  Http2Stream* const stream = StreamOf(session, frame->hd.stream_id);
  if (stream == nullptr) return 0;
  if (stream->too_large) {
    stream->is_grpc = stream->is_grpc || IsGrpcType(View(name, name_size), View(value, value_size));
    return 0;
  }
  Http2Headers& to = stream->has_fields ? stream->trailers : stream->fields;
  to.Add(View(name, name_size), View(value, value_size));
  stream->too_large = stream->fields.bytes() + stream->trailers.bytes() > Self(self)->options_.max_header_list;
  return 0;
}

int Http2Session::Callbacks::OnFrameReceived(nghttp2_session* session, const nghttp2_frame* frame,
                                             void* self) noexcept {
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
    case NGHTTP2_DATA:
      if (Http2Stream* const stream = StreamOf(session, frame->hd.stream_id)) OnMessage(Self(self), stream, frame->hd);
      break;
    case NGHTTP2_SETTINGS:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) {
        Self(self)->settings_in_flight_ = false;
        Self(self)->settings_until_ = {};
      } else {
        Self(self)->OnSettings();
      }
      break;
    case NGHTTP2_PING:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) Self(self)->OnPingAnswer(NumberOf(frame->ping.opaque_data));
      break;
    case NGHTTP2_GOAWAY:
      Self(self)->OnGoAway();
      break;
    default:
      break;
  }
  return 0;
}

// A stream above our max_concurrent_streams, before the peer has acknowledged it: nghttp2 resets it.
int Http2Session::Callbacks::OnInvalidFrame(nghttp2_session*, const nghttp2_frame* frame, int error,
                                            void* self) noexcept {
  if (error != NGHTTP2_ERR_REFUSED_STREAM) return 0;
  Self(self)->resets_.Add(frame->hd.stream_id);
  Self(self)->OnRefused();
  return 0;
}

void Http2Session::Callbacks::OnMessage(Http2Session* self, Http2Stream* stream, const nghttp2_frame_hd& head) {
  // Too many fields of a request have an answer: OnFields().
  const bool is_request = self->side_ == Side::kServer && !stream->has_fields;
  if (stream->too_large && !is_request && !stream->closed && !stream->drops_body) {
    self->CountInVain();
    return self->SubmitReset(*stream, NGHTTP2_CANCEL, Http2Errc::kHeadersTooLarge);
  }
  // What comes after our reset is no end of the message.
  if ((head.flags & NGHTTP2_FLAG_END_STREAM) != 0 && !stream->closed) stream->end_received = true;
  if (head.type == NGHTTP2_HEADERS && !stream->has_fields) {
    if (IsInformational(*stream)) {
      self->CountInVain();
      return stream->fields.clear();
    }
    stream->has_fields = true;
    if (self->side_ == Side::kClient && !stream->too_large) self->CountAnswered(kInterimAnswers);
    self->OnFields(*stream);
  }
  // OnData() has told of bytes: those that wait for them are not woken by frames without any.
  if (head.type == NGHTTP2_HEADERS || (head.flags & NGHTTP2_FLAG_END_STREAM) != 0) stream->changed.notify_all();
}

int Http2Session::Callbacks::OnData(nghttp2_session* session, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                                    std::size_t size, void* self) noexcept {
  Self(self)->empty_.GiveBack(kForDataCome);
  Http2Stream* const stream = StreamOf(session, id);
  if (stream == nullptr || stream->closed || stream->drops_body) {
    static_cast<void>(nghttp2_session_consume(session, id, size));  // H2S4
    return 0;
  }
  if (!stream->PutIn(View(data, size))) {
    static_cast<void>(nghttp2_session_consume(session, id, size));
    Self(self)->SubmitReset(*stream, NGHTTP2_ENHANCE_YOUR_CALM, std::make_error_code(std::errc::not_enough_memory));
    return 0;
  }
  stream->changed.notify_all();
  return 0;
}

int Http2Session::Callbacks::OnStreamClosed(nghttp2_session* session, std::int32_t id, std::uint32_t code,
                                            void* self) noexcept {
  Http2Stream* const stream = StreamOf(session, id);
  if (stream == nullptr) return 0;
  std::error_code error;
  if (code == NGHTTP2_REFUSED_STREAM && !stream->has_fields) {
    error = Http2Errc::kNotBegun;
  } else if (code != NGHTTP2_NO_ERROR || !stream->end_received || !stream->end_sent) {
    error = Http2Errc::kStreamReset;
    if (!stream->closed) stream->reset_code = code;
  }
  nghttp2_session_set_stream_user_data(session, id, nullptr);
  if (error && !stream->closed) Self(self)->OnReset(*stream);
  Self(self)->Leave(*stream, error);
  return 0;
}

int Http2Session::Callbacks::OnFrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* self) noexcept {
  if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
    Self(self)->settings_in_flight_ = true;
  }
  if (frame->hd.type == NGHTTP2_GOAWAY) {
    if (frame->goaway.error_code == NGHTTP2_NO_ERROR) {
      Self(self)->OnGoAwaySent();
    } else {
      Self(self)->EndWith(Http2Errc::kProtocolError);  // If it is not ours, nghttp2 has found an error.
    }
  }
  // nghttp2 forgets the stream next.
  if (frame->hd.type == NGHTTP2_RST_STREAM &&
      nghttp2_session_get_stream_remote_close(session, frame->hd.stream_id) != 1) {
    Self(self)->resets_.Add(frame->hd.stream_id);
  }
  if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) return 0;
  Self(self)->has_progressed_ = true;
  if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  if (Http2Stream* const stream = StreamOf(session, frame->hd.stream_id)) {
    stream->end_sent = true;
    Self(self)->OnEndSent(*stream);
  }
  return 0;
}

// A request that nghttp2 does not send any more: after a GOAWAY, or because it was reset before.
int Http2Session::Callbacks::OnFrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int,
                                            void* self) noexcept {
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  for (Http2Stream& stream : Self(self)->streams_) {
    if (stream.id != frame->hd.stream_id) continue;
    // If nghttp2 has opened it already, OnStreamClosed() follows.
    if (StreamOf(session, stream.id) == nullptr) {
      Self(self)->Leave(stream, Http2Errc::kNotBegun);
    } else {
      Self(self)->Close(stream, Http2Errc::kNotBegun);
    }
    break;
  }
  return 0;
}

ssize_t Http2Session::Callbacks::ReadBody(nghttp2_session* session, std::int32_t id, std::uint8_t*, std::size_t size,
                                          std::uint32_t* flags, nghttp2_data_source* source, void*) noexcept {
  auto* const stream = static_cast<Http2Stream*>(source->ptr);  // H2S6
  const std::size_t taken = std::min(size, stream->unsent());
  if (stream->closed || (taken == 0 && !stream->end_wanted)) {
    stream->deferred = true;  // H2S3
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (stream->end_wanted && taken == stream->unsent()) {
    *flags |= NGHTTP2_DATA_FLAG_EOF;
    if (!stream->out_trailers.empty()) {
      *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
      const FieldList list({}, stream->out_trailers);
      static_cast<void>(nghttp2_submit_trailer(session, id, list.data(), list.size()));
    }
  }
  return static_cast<ssize_t>(taken);
}

int Http2Session::Callbacks::SendBody(nghttp2_session*, nghttp2_frame*, const std::uint8_t* head, std::size_t size,
                                      nghttp2_data_source* source, void* self) noexcept {
  std::string& flight = Self(self)->flight_;
  if (flight.size() >= kFlight) return NGHTTP2_ERR_WOULDBLOCK;  // H2S8: asked again for the next one.
  auto* const stream = static_cast<Http2Stream*>(source->ptr);
  if (size != 0) Self(self)->empty_.GiveBack(kForDataSent);
  Self(self)->empty_frames_.CountSent(size);
  constexpr std::size_t kHead = 9;
  flight.append(View(head, kHead));
  stream->TakeOut(size, &flight);
  stream->changed.notify_all();
  return 0;
}

const nghttp2_session_callbacks* Http2Session::Callbacks::Table() {
  static const nghttp2_session_callbacks* const table = [] {
    nghttp2_session_callbacks* made = nullptr;
    WEFT_CHECK(nghttp2_session_callbacks_new(&made) == 0, "Http2Session: no memory");
    nghttp2_session_callbacks_set_on_begin_frame_callback(made, &OnBeginFrame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, &OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, &OnHeader);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, &OnFrameReceived);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(made, &OnInvalidFrame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, &OnData);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, &OnStreamClosed);
    nghttp2_session_callbacks_set_on_frame_send_callback(made, &OnFrameSent);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(made, &OnFrameNotSent);
    nghttp2_session_callbacks_set_send_data_callback(made, &SendBody);
    return made;
  }();
  return table;
}

const nghttp2_option* Http2Session::Callbacks::Options() {
  static const nghttp2_option* const option = [] {
    nghttp2_option* made = nullptr;
    WEFT_CHECK(nghttp2_option_new(&made) == 0, "Http2Session: no memory");
    nghttp2_option_set_no_auto_window_update(made, 1);
    // Nothing is kept of streams that have ended (23 KiB for 100). Their frames are ignored: RFC 9113, 5.1 allows it.
    nghttp2_option_set_no_closed_streams(made, 1);
    // Ours counts (H2S15): nghttp2's own ends connections whose calls are given up at their deadlines.
    if (nghttp2_option_set_stream_reset_rate_limit != nullptr) {
      nghttp2_option_set_stream_reset_rate_limit(made, kNoLimit, kNoLimit);
    }
    return made;
  }();
  return option;
}

}  // namespace weft::interop
