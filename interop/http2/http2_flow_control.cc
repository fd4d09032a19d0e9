// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Session: bodies and their windows.
//
//   in    What has come waits in the stream's `in`, at most stream_window of it, and connection_window for all streams.
//         A byte's window goes back to the peer when the user has read it, not when it comes: a user who does not read
//         stops the peer (H2S4). nghttp2 sends the WINDOW_UPDATE once half a window is to be given back.
//   out   A write waits while the stream's `out` has send_buffer bytes. nghttp2 takes from `out` what the peer's
//         windows allow, at Flush(); whoever waits to write is woken then (http2_callbacks.cc).

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <string>

#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_error.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {

// The connection's. A stream's is in the first SETTINGS.
void Http2Session::OpenWindow() {
  constexpr std::uint32_t kFromTheStart = 65'535;  // RFC 9113, 6.9.2; it cannot shrink.
  const auto window = static_cast<std::int32_t>(std::max(options_.connection_window, kFromTheStart));
  static_cast<void>(nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, window));
}

void Http2Session::DropUnread(Http2Stream& stream) {
  const std::size_t unread = stream.unread();
  GiveBack(stream, unread);
  stream.SkipIn(unread);
  std::string().swap(stream.in);
}

void Http2Session::GiveBack(Http2Stream& stream, std::size_t bytes) {
  if (bytes == 0 || ended_) return;
  if (stream.gone) {
    static_cast<void>(nghttp2_session_consume_connection(session_, bytes));
  } else {
    static_cast<void>(nghttp2_session_consume(session_, stream.id, bytes));
  }
}

std::error_code Http2Session::Wait(Lock& lock, FiberConditionVariable& condition, Deadline deadline) {
  try {
    if (condition.wait(lock, deadline) == std::cv_status::timeout) return std::make_error_code(std::errc::timed_out);
  } catch (const FiberCancelled&) {
    return std::make_error_code(std::errc::operation_canceled);  // As calls of io/ do; the next wait throws again.
  }
  return {};
}

Deadline Http2Session::OwnOr(Deadline deadline) const {
  return deadline.is_none() && options_.stream_timeout.count() > 0 ? Deadline(options_.stream_timeout) : deadline;
}

io::IoResult Http2Session::Read(Http2Stream& stream, void* data, std::size_t size, Deadline deadline) {
  if (size == 0) return {};
  deadline = OwnOr(deadline);
  Lock lock(mutex_);
  for (std::error_code late; stream.unread() == 0; late = Wait(lock, stream.changed, deadline)) {
    if (stream.end_received) return {};
    if (stream.closed) return {0, stream.error};
    if (late) {
      stream.io_failed = true;
      return {0, late};
    }
  }
  const std::size_t taken = TakeIn(stream, data, size);
  Flush(lock);
  return {taken, {}};
}

std::size_t Http2Session::TakeIn(Http2Stream& stream, void* data, std::size_t size) {
  const std::size_t taken = std::min(size, stream.unread());
  std::memcpy(data, stream.in.data() + stream.in_begin, taken);
  stream.SkipIn(taken);
  GiveBack(stream, taken);
  return taken;
}

std::size_t Http2Session::RoomIn(const Http2Stream& stream) const {
  return options_.send_buffer - std::min(options_.send_buffer, stream.unsent());
}

io::IoResult Http2Session::Write(Http2Stream& stream, const void* data, std::size_t size, Deadline deadline) {
  return WritePieces(stream, size, deadline, [&](std::size_t begin, std::size_t taken) {
    PutOut(stream, {static_cast<const char*>(data) + begin, taken});
  });
}

io::IoResult Http2Session::Write(Http2Stream& stream, const NoncontiguousBuffer& body, Deadline deadline) {
  return WritePieces(stream, body.ByteSize(), deadline, [&](std::size_t begin, std::size_t taken) {
    stream.out.Append(body.Slice(begin, taken));
    Resume(stream);
  });
}

template <class Put>
io::IoResult Http2Session::WritePieces(Http2Stream& stream, std::size_t size, Deadline deadline, const Put& put_out) {
  deadline = OwnOr(deadline);
  io::IoResult put;
  std::error_code late;
  Lock lock(mutex_);
  for (;;) {
    put.error = WhyNotWritable(stream);
    if (put.error) return put;
    if (stream.has_no_body) return {size, {}};
    const std::size_t taken = std::min(size - put.bytes, RoomIn(stream));
    if (taken != 0) {
      put_out(put.bytes, taken);
      put.bytes += taken;
      Flush(lock);  // It may release the mutex, and may have made room.
    }
    if (put.bytes == size) return put;
    if (stream.closed || RoomIn(stream) != 0) continue;
    if (late) {
      stream.io_failed = true;
      put.error = late;
      return put;
    }
    late = Wait(lock, stream.changed, deadline);
  }
}

void Http2Session::PutOut(Http2Stream& stream, std::string_view bytes) {
  stream.out.AppendCopy(bytes);
  Resume(stream);
}

void Http2Session::Resume(Http2Stream& stream) {
  if (!stream.deferred) return;
  stream.deferred = false;
  static_cast<void>(nghttp2_session_resume_data(session_, stream.id));  // H2S3
}

}  // namespace weft::interop
