// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Server, Http2Request, Http2Response: what users call; the work is Http2ServerConnection's.

#include <algorithm>
#include <any>
#include <memory>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_server_connection.h"
#include "weft/interop/http2/http2_stream.h"
#include "weft/interop/http2_server.h"

namespace weft::interop {

const Http2Headers& Http2Request::headers() const { return stream_->fields; }
const Http2Headers& Http2Request::trailers() const { return stream_->trailers; }
std::int32_t Http2Request::stream_id() const { return stream_->id; }
bool Http2Request::draining() const noexcept { return connection_->draining(); }

io::IoResult Http2Request::Read(void* data, std::size_t size, Deadline deadline) {
  return connection_->Read(*stream_, data, size, deadline);
}

std::error_code Http2Request::ReadAll(std::string* body, std::size_t max, Deadline deadline) {
  char piece[4096];
  for (;;) {
    const io::IoResult got = Read(piece, sizeof(piece), deadline);
    if (!got.ok() || got.bytes == 0) return got.error;
    if (got.bytes > max - std::min(max, body->size())) return std::make_error_code(std::errc::message_size);
    body->append(piece, got.bytes);
  }
}

std::error_code Http2Response::Start(int status, const Http2Headers& headers) {
  const std::error_code error = connection_->Start(*stream_, status, headers);
  started_ = started_ || !error;
  return error;
}

io::IoResult Http2Response::Write(const void* data, std::size_t size, Deadline deadline) {
  return connection_->Write(*stream_, data, size, deadline);
}

io::IoResult Http2Response::Write(const NoncontiguousBuffer& body, Deadline deadline) {
  return connection_->Write(*stream_, body, deadline);
}

std::error_code Http2Response::Finish(const Http2Headers& trailers) { return connection_->End(*stream_, trailers); }

std::error_code Http2Response::Send(int status, const Http2Headers& headers, std::string_view body, Deadline deadline) {
  return Send(status, headers, body, Http2Headers(), deadline);
}

std::error_code Http2Response::Send(int status, const Http2Headers& headers, std::string_view body,
                                    const Http2Headers& trailers, Deadline deadline) {
  const std::error_code error = connection_->Send(*stream_, status, headers, body, trailers, deadline);
  started_ = started_ || error != Http2Errc::kBadField;
  return error;
}

void Http2Response::Reset() { connection_->GiveUp(*stream_); }

Http2Server::Http2Server(Handler handler, const Http2Options& options)
    : handler_(std::move(handler)), options_(options), bodies_({.bytes = options.max_server_bodies}) {}

std::error_code Http2Server::Serve(const Http2Transport& transport) {
  tally_.connections.fetch_add(1, std::memory_order_relaxed);
  Http2ServerConnection connection(this, transport, options_);
  return connection.Serve(Http2ServerConnection::Stay::kUntilOver);
}

Http2Connection::Http2Connection(Http2Server* server, const Http2Transport& transport) : transport_(transport) {
  WEFT_CHECK(transport.CanWaitWithoutFiber(), "Http2Connection: the transport has no io::TcpConnection");
  server->tally_.connections.fetch_add(1, std::memory_order_relaxed);
  connection_ = std::make_unique<Http2ServerConnection>(server, transport, server->options_);
}

Http2Connection::~Http2Connection() = default;

io::AfterRequest Http2Connection::Serve() {
  transport_.KeepFiber();
  static_cast<void>(connection_->Serve(Http2ServerConnection::Stay::kMayLeave));
  return connection_->has_left() ? io::AfterRequest::kWaitForNext : io::AfterRequest::kClose;
}

void Http2Connection::SayGoodbye() {
  transport_.KeepFiber();
  connection_->EndWait();
  static_cast<void>(connection_->Serve(Http2ServerConnection::Stay::kUntilOver));
}

io::RequestHandler Http2Server::ForTcpServer() {
  using Kept = std::shared_ptr<Http2Connection>;
  const auto connection_of = [this](io::TcpConnection& connection) -> Http2Connection& {
    std::any& state = connection.state();
    if (!state.has_value()) state = std::make_shared<Http2Connection>(this, Http2Transport(connection));
    return *std::any_cast<Kept&>(state);
  };
  io::RequestHandler handler([=](io::TcpConnection& connection) { return connection_of(connection).Serve(); },
                             [=](io::TcpConnection& connection) { connection_of(connection).SayGoodbye(); });
  handler.SetLongestWaits(io::ShorterLimit(options_.settings_timeout, options_.idle_timeout), options_.idle_timeout);
  return handler;
}

Http2Server::Counts Http2Server::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  const io::RequestBudget::Counts bodies = bodies_.counts();
  return {.connections = read(tally_.connections),
          .requests = read(tally_.requests),
          .handlers = handlers_.load(std::memory_order_relaxed),
          .refused = read(tally_.refused),
          .over_bodies = bodies.over_bytes,
          .body_bytes = bodies.bytes,
          .too_large = read(tally_.too_large),
          .reset = read(tally_.reset),
          .protocol_errors = read(tally_.protocol_errors),
          .flooded = read(tally_.flooded),
          .idle_timeouts = read(tally_.idle_timeouts),
          .write_timeouts = read(tally_.write_timeouts),
          .settings_timeouts = read(tally_.settings_timeouts),
          .ping_timeouts = read(tally_.ping_timeouts)};
}

}  // namespace weft::interop
