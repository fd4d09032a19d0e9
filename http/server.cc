// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/server.h"

#include <any>
#include <memory>
#include <string>
#include <utility>

#include "weft/http/connection/begun_stream.h"
#include "weft/http/connection/http2_exchange.h"

namespace weft::http {
namespace {

using Served = Http1Server::Served;

// Of a client that has come in plain text, with the preface that was read already.
struct PlainHttp2 {
  PlainHttp2(interop::Http2Server* server, io::TcpConnection* connection, std::string begun)
      : stream(connection, std::move(begun)), http(server, interop::Http2Transport(stream, connection)) {}
  BegunStream stream;
  interop::Http2Connection http;
};
using KeptHttp2 = std::shared_ptr<PlainHttp2>;

void Call(const Server::Handler& handler, interop::Http2Request& request, interop::Http2Response& response) {
  Http2Exchange exchange(&request, &response);
  if (request.method() == "CONNECT") {
    static_cast<void>(exchange.Send(501, {}, {}, {}));
    return;
  }
  Request asked(&exchange);
  Response answer(&exchange);
  handler(asked, answer);
  static_cast<void>(exchange.ResetIfShort());
}

io::AfterRequest After(Served served) {
  return served == Served::kWaits ? io::AfterRequest::kWaitForNext : io::AfterRequest::kClose;
}

}  // namespace

Server::Server(Handler handler, const Options& options)
    : handler_(std::move(handler)),
      options_(options),
      http1_(&handler_, {.max_header = options.limits.max_header_list,
                         .header_timeout = options.header_timeout,
                         .stream_timeout = options.limits.stream_timeout,
                         .batches_answers = options.batches_pipelined_answers}),
      http2_([this](interop::Http2Request& request,
                    interop::Http2Response& response) { Call(handler_, request, response); },
             options.limits) {}

io::RequestHandler Server::ForTcpServer() {
  io::RequestHandler handler([this](io::TcpConnection& connection) { return ServePlain(connection); },
                             [](io::TcpConnection& connection) {
                               if (KeptHttp2* const kept = std::any_cast<KeptHttp2>(&connection.state())) {
                                 (*kept)->http.SayGoodbye();
                               }
                             });
  handler.SetFiberName("http connection");
  handler.SetLongestWaits(io::detail::ShorterLimit(options_.limits.settings_timeout, idle_timeout()), idle_timeout());
  return handler;
}

io::AfterRequest Server::ServePlain(io::TcpConnection& connection) {
  if (KeptHttp2* const kept = std::any_cast<KeptHttp2>(&connection.state())) return (*kept)->http.Serve();
  std::string preface;
  const Http1Server::Stream stream{.transport = interop::Http2Transport(connection),
                                   .connection = &connection,
                                   .scheme = "http",
                                   .reads_ahead = false};
  const Served served = http1_.Serve(stream, connection.has_sent_request() ? nullptr : &preface);
  if (served != Served::kHttp2) return After(served);
  const auto kept = std::make_shared<PlainHttp2>(&http2_, &connection, std::move(preface));
  connection.state() = kept;
  return kept->http.Serve();
}

io::AfterRequest Server::ServeHttp1(const interop::Http2Transport& transport, io::TcpConnection& connection,
                                    std::string_view scheme) {
  return After(http1_.Serve({.transport = transport, .connection = &connection, .scheme = scheme, .reads_ahead = true},
                            /*preface=*/nullptr));
}

Server::Counts Server::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  const Http1Tally& tally = http1_.tally();
  return {.requests = read(tally.requests),
          .refused = read(tally.refused),
          .too_large = read(tally.too_large),
          .header_timeouts = read(tally.header_timeouts),
          .broken_off = read(tally.broken_off),
          .http2 = http2_.counts()};
}

}  // namespace weft::http
