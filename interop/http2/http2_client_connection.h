// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2ClientConnection: the connection of an Http2Client (http2_client.h), and its calls.
//
// Invariants, beside those of http2_session.h
//   H2C1  open_ counts streams from their submission until nghttp2 has forgotten them; it is never above what the
//         server allows at the time of the submission.
//   H2C2  A place that becomes free wakes a waiter. A waiter that gives up while a place is free wakes the next one, so
//         no place is lost with it.
//   H2C3  Each handle is counted in calls_ until its last touch of the connection, in one hold of the mutex.
//   H2C4  Pings are numbered upwards, and answers come in order: one ends the waits for all pings up to its number.
#ifndef WEFT_INTEROP_HTTP2_HTTP2_CLIENT_CONNECTION_H_
#define WEFT_INTEROP_HTTP2_HTTP2_CLIENT_CONNECTION_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/fiber/fiber.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2/http2_stream.h"
#include "weft/interop/http2_client.h"
#include "weft/sync/fiber_condition_variable.h"

namespace weft::interop {

class Http2ClientConnection final : public Http2Session {
 public:
  Http2ClientConnection(const Http2Transport& transport, const Http2Options& options)
      : Http2Session(Side::kClient, transport, options) {}
  ~Http2ClientConnection();

  bool Start();
  void Close();
  bool is_open();
  std::error_code Ping(Deadline deadline);

  // *stream: with a reference.
  std::error_code Open(const Http2RequestHead& head, bool body, Deadline deadline, Http2Stream** stream);
  std::error_code AwaitAnswer(Http2Stream& stream, Deadline deadline);
  // Sends and receives at the same time: neither side may finish before the other one.
  std::error_code Exchange(Http2Stream& stream, std::string_view body, Deadline deadline, std::size_t max_body,
                           Http2Answer* answer);
  void Cancel(Http2Stream& stream);
  // The handle goes.
  void Abandon(Http2Stream* stream);

 private:
  base::RefPtr<Http2Stream> OnBegin() override { return {}; }
  void OnFields(Http2Stream&) override {}
  void OnReset(Http2Stream&) override {}
  void OnEndSent(Http2Stream&) override {}
  void OnClosed(Http2Stream&) override {}
  void OnGone(Http2Stream& stream) override;
  void OnGoAway() override { places_.notify_all(); }
  void OnSettings() override { places_.notify_all(); }
  void OnPingAnswer(std::uint64_t number) override;
  bool MayPing() const override { return true; }
  std::uint64_t NextPing() override { return ++pings_sent_; }
  void AfterReceive(Lock&) override {}
  void OnProgress() override {}
  Deadline NextTick() const override { return {}; }
  void OnTick() override {}
  void OnDrain() override {}
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

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_HTTP2_CLIENT_CONNECTION_H_
