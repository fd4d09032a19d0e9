// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Session: the life of its streams, and what users of them call. Their bodies: http2_flow_control.cc. The reader and
// the writer: http2_session.cc.

#include <cstring>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_callbacks.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_error.h"

namespace weft::interop {

Http2Session::Http2Session(Side side, const Http2Transport& transport, const Http2Options& options)
    : side_(side),
      options_(options),
      transport_(transport),
      in_vain_(options.max_resets, options.resets_per_second),
      empty_(options.max_empty_frames, options.empty_frames_per_second),
      empty_frames_(side == Side::kServer ? NGHTTP2_CLIENT_MAGIC_LEN : 0) {
  WEFT_CHECK(options.stream_window <= NGHTTP2_MAX_WINDOW_SIZE && options.connection_window <= NGHTTP2_MAX_WINDOW_SIZE &&
                 options.send_buffer > 0 && options.max_concurrent_streams > 0,
             "Http2Options: a limit that cannot be");
  const bool is_server = side == Side::kServer;
  const auto make = is_server ? &nghttp2_session_server_new3 : &nghttp2_session_client_new3;
  WEFT_CHECK(frame_room_.MakeSession(make, &session_, Callbacks::Table(), this, Callbacks::Options()) == 0,
             "Http2Session: no memory");
  const nghttp2_settings_entry first =
      is_server ? nghttp2_settings_entry{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, options.max_concurrent_streams}
                : nghttp2_settings_entry{NGHTTP2_SETTINGS_ENABLE_PUSH, 0};
  const nghttp2_settings_entry settings[] = {first,
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, options.stream_window},
                                             {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, options.max_header_list}};
  static_cast<void>(nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, std::size(settings)));
  OpenWindow();
}

Http2Session::~Http2Session() {
  while (!streams_.empty()) {
    Http2Stream* const stream = &*streams_.begin();
    streams_.erase(stream);
    stream->Release();
  }
  frame_room_.Wake();
  nghttp2_session_del(session_);
}

void Http2Session::Enter(Http2Stream& stream) {
  stream.AddRef();  // H2S6
  streams_.push_back(&stream);
}

void Http2Session::Leave(Http2Stream& stream, std::error_code error) {
  stream.gone = true;
  Close(stream, error);
  stream.out.Clear();
  OnGone(stream);
  streams_.erase(&stream);
  stream.Release();
}

void Http2Session::Close(Http2Stream& stream, std::error_code error) {
  if (stream.closed) return;
  stream.closed = true;
  stream.error = error;
  if (!stream.end_received) DropUnread(stream);
  stream.changed.notify_all();  // H2S5
  OnClosed(stream);
}

void Http2Session::CloseAll(std::error_code error) {
  for (Http2Stream& stream : streams_) {
    if (!stream.closed) Close(stream, TakeBack(stream) ? make_error_code(Http2Errc::kNotBegun) : error);
  }
}

// nghttp2 opens a stream when it makes the bytes of the request's header fields, and has no user data of it before. A
// reset by then takes them out of its queue, so the writer, which may go on for a while, sends nothing of it.
bool Http2Session::TakeBack(Http2Stream& stream) {
  return side_ == Side::kClient && nghttp2_session_get_stream_user_data(session_, stream.id) == nullptr &&
         nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_CANCEL) == 0;
}

std::error_code Http2Session::WhyNotWritable(const Http2Stream& stream) {
  if (stream.closed && stream.error) return stream.error;
  // An answer without a body may have gone out whole already.
  if (!stream.has_sent_fields || stream.end_wanted || (stream.closed && !stream.has_no_body)) {
    return Http2Errc::kWrongOrder;
  }
  return {};
}

std::error_code Http2Session::PutEnd(Http2Stream& stream, const Http2Headers& trailers) {
  if (std::error_code error = WhyNotWritable(stream)) return error;
  if (!MayBeSent(trailers)) return Http2Errc::kBadField;
  stream.out_trailers = trailers;
  stream.end_wanted = true;
  Resume(stream);
  return {};
}

std::error_code Http2Session::End(Http2Stream& stream, const Http2Headers& trailers) {
  Lock lock(mutex_);
  if (std::error_code error = PutEnd(stream, trailers)) return error;
  Flush(lock);
  return {};
}

std::error_code Http2Session::SubmitFields(Http2Stream& stream, std::span<const Http2Field> first,
                                           const Http2Headers& rest, bool body) {
  if (!MayBeSent(rest, first)) return Http2Errc::kBadField;
  const FieldList list(first, rest);
  nghttp2_data_provider provider{.source = {.ptr = &stream}, .read_callback = &Callbacks::ReadBody};
  const nghttp2_data_provider* const data = body ? &provider : nullptr;
  if (side_ == Side::kServer) {
    if (nghttp2_submit_response(session_, stream.id, list.data(), list.size(), data) != 0) {
      return Http2Errc::kWrongOrder;
    }
  } else {
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, list.data(), list.size(), data, &stream);
    if (id < 0) return Http2Errc::kNotBegun;  // There are no more numbers.
    stream.id = id;
  }
  stream.has_sent_fields = true;
  if (!body) {
    stream.has_no_body = true;
    if (side_ == Side::kClient) stream.end_wanted = true;
  }
  return {};
}

void Http2Session::SubmitReset(Http2Stream& stream, std::uint32_t code, std::error_code error) {
  if (!stream.gone && !ended_) {
    static_cast<void>(nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, code));
  }
  Close(stream, error);
}

void Http2Session::SubmitPing(std::uint64_t number) {
  empty_.GiveBack(1);  // For its answer.
  std::uint8_t opaque[8];
  std::memcpy(opaque, &number, sizeof(opaque));
  static_cast<void>(nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, opaque));
}

}  // namespace weft::interop
