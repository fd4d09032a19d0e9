// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// OverTls: an http::Server over TLS; ALPN says whether a client speaks HTTP/2 or HTTP/1. For programs that have OpenSSL
// 3, too: by weft::http and weft::tls.
// Sample:
//     const auto context = interop::TlsContext::ForServer(options, &why);   // with .alpn = {"h2", "http/1.1"}
//     http::Server http(handler);
//     io::TcpServer server(std::move(listener), http::OverTls(&http, *context));
//
// As Server::ForTcpServer(): an idle connection has no fiber, and of TLS no buffers; nor has one that has sent nothing
// yet. A client without ALPN speaks HTTP/1. One that agrees on none of the two is closed after the handshake.
#ifndef WEFT_HTTP_OVER_TLS_H_
#define WEFT_HTTP_OVER_TLS_H_

#include <any>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/http/server.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/http2_transport.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_server.h"

namespace weft::http {

// How OverTls() takes clients.
struct OverTlsOptions {
  // How long a client may send nothing, and then how long its handshake may take from its first bytes on. 0: no limit.
  std::chrono::milliseconds handshake_timeout{5'000};
  // Called for each connection that does not come to HTTP, in its fiber: TlsStream::Handshake() has failed with
  // `error`, and error_text() says more; no error: the two have agreed on another protocol.
  std::function<void(const interop::TlsStream& tls, std::error_code error)> refused{};
};

// A connection of OverTls().
class TlsConnection {
 public:
  // `connection` outlives it.
  TlsConnection(io::TcpConnection& connection, const interop::TlsContext& context)
      : connection_(connection), tls_(connection, context) {}

  // The function of the io::RequestHandler: the handshake, then requests. Returns when none is left that has come.
  io::AfterRequest Serve(Server* server, const OverTlsOptions& options) {
    if (!is_ready_) {
      const bool limited = options.handshake_timeout.count() > 0;
      const std::error_code error = tls_.Handshake(limited ? Deadline(options.handshake_timeout) : Deadline());
      if (error == std::errc::resource_unavailable_try_again) return io::AfterRequest::kWaitForNext;  // Nothing came.
      const bool is_http2 = tls_.alpn() == "h2";
      if (error || !(is_http2 || tls_.alpn().empty() || tls_.alpn() == "http/1.1")) {
        if (options.refused) options.refused(tls_, error);
        return io::AfterRequest::kClose;
      }
      is_ready_ = true;
      if (is_http2) http2_.emplace(server->http2(), interop::Http2Transport(tls_, &connection_));
    }
    if (http2_.has_value()) return http2_->Serve();
    return server->ServeHttp1(interop::Http2Transport(tls_, &connection_), connection_, "https");
  }
  // Its goodbye: GOAWAY, or the end of TLS. Waits a second at most for HTTP/1.
  void SayGoodbye() {
    if (http2_.has_value()) {
      http2_->SayGoodbye();
    } else if (is_ready_) {
      static_cast<void>(tls_.ShutdownWrite(std::chrono::seconds(1)));
    }
  }

 private:
  io::TcpConnection& connection_;
  interop::TlsStream tls_;
  bool is_ready_ = false;
  std::optional<interop::Http2Connection> http2_;
};

// For the constructor of an io::TcpServer, or of several, which `server` outlives.
inline io::RequestHandler OverTls(Server* server, const interop::TlsContext& context, OverTlsOptions options = {}) {
  using Kept = std::shared_ptr<TlsConnection>;
  const std::chrono::milliseconds idle_timeout = server->idle_timeout();
  const std::chrono::milliseconds first_wait = io::detail::ShorterLimit(options.handshake_timeout, idle_timeout);
  io::RequestHandler handler(
      [server, context, options = std::move(options)](io::TcpConnection& connection) {
        std::any& state = connection.state();
        if (!state.has_value()) state = std::make_shared<TlsConnection>(connection, context);
        return std::any_cast<Kept&>(state)->Serve(server, options);
      },
      [](io::TcpConnection& connection) {
        if (const Kept* const kept = std::any_cast<Kept>(&connection.state())) (*kept)->SayGoodbye();
      });
  handler.SetFiberName("https connection");
  handler.SetLongestWaits(first_wait, idle_timeout);
  return handler;
}

}  // namespace weft::http

#endif  // WEFT_HTTP_OVER_TLS_H_
