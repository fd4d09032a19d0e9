// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2ServerConnection: one connection of an Http2Server (http2_server.h), and its handlers. What users call of the
// server, its requests and answers is in http2_server_connection.cc, too.
//
// Invariants, beside those of http2_session.h
//   H2V1  A handler's fiber belongs to a FiberScope of Serve(), which therefore returns after it, also when it leaves
//         the session to nobody (H2S14). The stream that it uses has a reference in that fiber, whatever nghttp2 has
//         forgotten.
//   H2V2  handlers_ (at most max_handlers_) counts requests from their fields to the end of their fiber, reset or not.
//   H2V3  Whatever ends a stream before its answer has been sent cancels its handler's scope.
//   H2V4  No handler begins for a stream that the last GOAWAY leaves out. nghttp2 ignores such streams after it has
//         sent the GOAWAY; those that come while it waits to be sent are refused.
//   H2V5  The idle time counts from the last of these: the beginning, the end of a handler, an answer's progress while
//         no handler runs. The reader wakes up no later than one idle time after it has begun to wait. A session that
//         is left has its idle time in its TcpConnection: the server's sweep ends the wait (Http2Connection).
//   H2V6  Http2Server::handlers_ is the sum of its connections' handlers_, and at most max_server_handlers, but for
//         those that find it full and leave it at once.
//   H2V7  Http2Server::bodies_ has the sum of unread() of all streams of its connections: PutIn() takes, SkipIn() gives
//         back, and a stream's destructor gives back the rest. No stream outlives Serve() (H2V1), hence the server.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_SERVER_CONNECTION_H_
#define WEFT_INTEROP_HTTP2_HTTP2_SERVER_CONNECTION_H_

#include <chrono>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_server.h"

namespace weft::interop {

class Http2ServerConnection final : public Http2Session {
 public:
  using Stay = Http2Session::Stay;

  Http2ServerConnection(Http2Server* server, const Http2Transport& transport, const Http2Options& options);

  // Until the connection is over. kMayLeave: or waits without a fiber (H2S14): has_left(), and a further call goes on.
  std::error_code Serve(Stay stay);
  using Http2Session::EndWait;
  using Http2Session::has_left;

  // --- For Http2Request and Http2Response ---
  bool draining() const noexcept { return transport_.draining(); }
  std::error_code Start(Http2Stream& stream, int status, const Http2Headers& headers);
  std::error_code Send(Http2Stream& stream, int status, const Http2Headers& headers, std::string_view body,
                       const Http2Headers& trailers, Deadline deadline);
  void GiveUp(Http2Stream& stream);

 private:
  using StreamPtr = base::RefPtr<Http2Stream>;
  enum class Handled { kReturned, kThrew, kCancelled };
  enum class DrainStep { kNone, kNoticed, kLast };

  // A request that lives longer has had its place among max_concurrent_streams for so long: a client may reset no more
  // of these than it may have answered by handlers that take the time. Deadlines of calls are seldom shorter.
  static constexpr std::chrono::milliseconds kShortLife{10};
  // Of any of them, and no answer to the drain's.
  static constexpr std::uint64_t kSilencePing = 0x7765'6674'7761'6974;

  StreamPtr OnBegin() override;
  void OnRefused() override;
  void OnFields(Http2Stream& stream) override;
  void OnReset(Http2Stream& stream) override;
  void OnEndSent(Http2Stream& stream) override;
  void OnClosed(Http2Stream& stream) override;
  void OnGoAwaySent() override;
  void OnPingAnswer(std::uint64_t number) override;
  bool MayPing() const override { return !IsIdle() || options_.idle_timeout.count() == 0; }
  std::uint64_t NextPing() override { return kSilencePing; }
  void AfterReceive(Lock& lock) override;
  void OnProgress() override;
  Deadline NextTick() const override;
  void OnTick() override;
  void OnDrain() override;
  bool IsIdle() const override { return handlers_ == 0 && streams_.empty(); }
  bool OthersMayWrite() const override { return handlers_ > 1; }

  // H2V2, H2V6. False: the server has no room.
  bool EnterHandler();
  void LeaveHandlers(std::uint32_t count);
  void RefuseFields(Http2Stream& stream);
  void CountEnd(std::error_code why);
  void SayLastGoAway();
  void BecomeIdle();
  void RunHandler(const StreamPtr& stream);
  Handled CallHandler(Http2Stream& stream, Http2Request& request, Http2Response& response);
  void EndHandler(Http2Stream& stream, Handled how);
  void EndAnswer(Http2Stream& stream, Handled how);
  void StopUpload(Http2Stream& stream);
  std::error_code SubmitStatus(Http2Stream& stream, int status, const Http2Headers& headers, bool body);

  Http2Server* const server_;
  const std::uint32_t max_handlers_;
  FiberScope* scope_ = nullptr;
  std::vector<StreamPtr> to_start_;  // the reader's
  std::uint32_t handlers_ = 0;
  Deadline idle_until_;
  DrainStep drain_ = DrainStep::kNone;
  Deadline drain_until_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_SERVER_CONNECTION_H_
