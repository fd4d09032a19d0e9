// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2OverTls: an Http2Server over TLS; GrpcOverTls: an Http2GrpcClient over TLS. For programs that have OpenSSL 3 and
// nghttp2, by weft::http2 and weft::tls.
// Sample:
//     const auto context = interop::TlsContext::ForServer(options, &why);   // with .alpn = {"h2"}
//     interop::Http2Server http(handler);
//     io::TcpServer server(std::move(listener), interop::Http2OverTls(&http, *context));
// Sample:
//     const auto context = interop::TlsContext::ForClient({.alpn = {"h2"}}, &why);
//     interop::Http2GrpcClient client("greeter.internal:443", {.connect = interop::GrpcOverTls(*context)});
//
// As Http2Server::ForTcpServer(): an idle connection has no fiber, and of TLS no buffers; nor has one that has sent
// nothing yet. A client that does not agree on "h2" is closed after the handshake.
#ifndef WEFT_INTEROP_HTTP2_OVER_TLS_H_
#define WEFT_INTEROP_HTTP2_OVER_TLS_H_

#include <any>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/interop/http2_grpc_client.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/http2_transport.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"

namespace weft::interop {

// Limits of the handshake, and who hears of those that fail.
struct Http2OverTlsOptions {
  // How long a client may send nothing, and then how long its handshake may take from its first bytes on. 0: no limit.
  std::chrono::milliseconds handshake_timeout{5'000};
  // Called for each connection that does not come to HTTP/2, in its fiber: TlsStream::Handshake() has failed with
  // `error`, and error_text() says more; no error: the two have not agreed on "h2".
  std::function<void(const TlsStream& tls, std::error_code error)> refused{};
};

// A connection of Http2OverTls().
class Http2TlsConnection {
 public:
  // Over a connection that has not spoken TLS yet. `context` outlives it.
  Http2TlsConnection(io::TcpConnection& connection, const TlsContext& context)
      : connection_(connection), tls_(connection, context) {}

  // By the function of the RequestHandler: handshake, then Http2Connection::Serve().
  io::AfterRequest Serve(Http2Server* server, const Http2OverTlsOptions& options) {
    if (!http_.has_value()) {
      const bool limited = options.handshake_timeout.count() > 0;
      const std::error_code error = tls_.Handshake(limited ? Deadline(options.handshake_timeout) : Deadline());
      if (error == std::errc::resource_unavailable_try_again) return io::AfterRequest::kWaitForNext;  // Nothing came.
      if (error || tls_.alpn() != "h2") {
        if (options.refused) options.refused(tls_, error);
        return io::AfterRequest::kClose;
      }
      http_.emplace(server, Http2Transport(tls_, &connection_));
    }
    return http_->Serve();
  }
  // By the Goodbye of the RequestHandler.
  void SayGoodbye() {
    if (http_.has_value()) http_->SayGoodbye();
  }

 private:
  io::TcpConnection& connection_;
  TlsStream tls_;
  std::optional<Http2Connection> http_;
};

// For the constructor of an io::TcpServer, or of several, which `server` outlives. `context`: with .alpn = {"h2"}.
inline io::RequestHandler Http2OverTls(Http2Server* server, const TlsContext& context,
                                       Http2OverTlsOptions options = {}) {
  using Kept = std::shared_ptr<Http2TlsConnection>;
  const std::chrono::milliseconds idle_timeout = server->options().idle_timeout;
  const std::chrono::milliseconds first_wait = io::detail::ShorterLimit(options.handshake_timeout, idle_timeout);
  io::RequestHandler handler(
      [server, context, options = std::move(options)](io::TcpConnection& connection) {
        std::any& state = connection.state();
        if (!state.has_value()) state = std::make_shared<Http2TlsConnection>(connection, context);
        return std::any_cast<Kept&>(state)->Serve(server, options);
      },
      [](io::TcpConnection& connection) {
        if (const Kept* const kept = std::any_cast<Kept>(&connection.state())) (*kept)->SayGoodbye();
      });
  handler.SetFiberName("http2 connection");
  handler.SetLongestWaits(first_wait, idle_timeout);
  return handler;
}

// Makes connections of an Http2GrpcClient over TLS. `context`: with .alpn = {"h2"}; the servers' certificates are
// checked for the host of their target, or for `server_name`. One that does not agree on "h2" is
// protocol_not_supported.
inline GrpcConnect GrpcOverTls(const TlsContext& context, const std::string& server_name = {}) {
  class Link final : public GrpcLink {
   public:
    Link(const TlsContext& context, const std::string& name) : tls_(stream_, context, name) {}
    std::error_code Connect(const GrpcPeer& peer, Deadline deadline) {
      std::error_code error = peer.Connect(&stream_, deadline);
      if (!error) error = tls_.Handshake(deadline);
      if (!error && tls_.alpn() != "h2") error = std::make_error_code(std::errc::protocol_not_supported);
      return error;
    }
    Http2Transport transport() override { return Http2Transport(tls_); }
    std::string_view scheme() const override { return "https"; }

   private:
    io::TcpStream stream_;
    TlsStream tls_;
  };
  return [context, server_name](const GrpcPeer& peer, Deadline deadline, std::unique_ptr<GrpcLink>* link) {
    auto made = std::make_unique<Link>(context, server_name.empty() ? peer.host : server_name);
    const std::error_code error = made->Connect(peer, deadline);
    if (!error) *link = std::move(made);
    return error;
  };
}

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_OVER_TLS_H_
