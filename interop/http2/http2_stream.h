// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Stream: one request and its answer, of a server or of a client: what has come, what is to be sent, what has
// ended. Http2Session (http2_session.h) writes it; all of it is guarded by the session's mutex.
//
// Two ends, each seen by both sides of the code:
//
//     to us      end_received   the peer's END_STREAM has come
//     from us    end_wanted     the last byte and the trailers are in `out`
//                end_sent       our END_STREAM is on its way
//     both       closed         users get nothing more than what is in `in`, and its end if that has come; `error` says
//                               why, if the stream ended before both ends
//                gone           nghttp2 has forgotten it
#ifndef WEFT_INTEROP_HTTP2_HTTP2_STREAM_H_
#define WEFT_INTEROP_HTTP2_HTTP2_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/base/ref_ptr.h"
#include "weft/interop/http2_headers.h"
#include "weft/net/budgets.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_condition_variable.h"

namespace weft::interop {

struct Http2Stream : base::RefCounted<Http2Stream> {
  static constexpr std::size_t kKeptIn = 16'384;

  std::int32_t id = 0;

  // --- What has come ---
  Http2Headers fields;  // with those that begin with a colon
  Http2Headers trailers;
  bool has_fields = false;  // complete; of an answer: those of its final status
  bool too_large = false;   // more fields have come than may
  bool is_grpc = false;     // says a field that has come after those
  std::string in;           // of the body: what was not read
  std::size_t in_begin = 0;
  bool end_received = false;
  io::RequestBudget* bodies = nullptr;  // a server's: has unread() bytes of it (H2V7)

  // --- What is to be sent ---
  bool has_sent_fields = false;  // given to nghttp2
  bool has_no_body = false;      // the fields' frame ends the stream; a body is dropped
  NoncontiguousBuffer out;       // of the body: what nghttp2 has not taken
  Http2Headers out_trailers;
  bool end_wanted = false;
  bool deferred = false;  // nghttp2 waits for nghttp2_session_resume_data()
  bool end_sent = false;

  bool closed = false;
  bool gone = false;
  std::error_code error;

  // A server's.
  Deadline::TimePoint begun_at;  // when its fields have come
  CancelScope scope;             // around the handler
  bool drops_body = false;       // its handler has returned: what still comes is given back at once
  bool io_failed = false;        // a Read() or a Write(): what was sent does not end as if it were all

  FiberConditionVariable changed;  // fields, bytes or an end have come; there is room in `out`; closed
  base::ListHook hook;

  ~Http2Stream() { SkipIn(unread()); }

  std::size_t unread() const noexcept { return in.size() - in_begin; }
  // Drops what has been read when it is no less than the rest: `in` is at most twice as long as what may be unread, and
  // a byte moves once on average. False: `bodies` has no room.
  [[nodiscard]] bool PutIn(std::string_view bytes) {
    if (bodies != nullptr && !bodies->TakeBytes(bytes.size())) return false;
    if (in_begin >= unread()) {
      in.erase(0, in_begin);
      in_begin = 0;
    }
    in.append(bytes);
    return true;
  }
  // Drops the first unread bytes, and gives them back to `bodies`.
  void SkipIn(std::size_t bytes) {
    if (bodies != nullptr) bodies->GiveBackBytes(bytes);
    in_begin += bytes;
    if (unread() != 0) return;
    // A frame's memory is kept for the next one.
    if (in.capacity() > kKeptIn) std::string().swap(in);
    in.clear();
    in_begin = 0;
  }
  std::size_t unsent() const noexcept { return out.ByteSize(); }
  // The first `size` bytes of `out`, to the end of *to. Blocks go as soon as they have been copied.
  void TakeOut(std::size_t size, std::string* to) {
    while (size != 0) {
      const std::string_view bytes = out.FirstContiguous().substr(0, size);
      to->append(bytes);
      size -= bytes.size();
      out.Skip(bytes.size());
    }
  }
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_STREAM_H_
