// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// http::Server: one handler for HTTP/1.0, HTTP/1.1 and HTTP/2. For programs that have nghttp2 and Boost.Beast, by the
// CMake target weft::http.
// Sample:
//     int main(int argc, char** argv) {
//       return weft::Run(argc, argv, [](weft::EndSignal& end) {
//         weft::http::Server http([](weft::http::Request&, weft::http::Response& response) {
//           static_cast<void>(response.Send(200, {{"content-type", "text/plain"}}, "hello\n"));
//         });
//         weft::io::TcpListener listener;
//         const std::error_code error = listener.Listen(weft::io::SocketAddress::AnyIpv4(8080));
//         if (error) throw std::system_error(error);                             // Run() logs it
//         weft::io::TcpServer server(std::move(listener), http.ForTcpServer());
//         if (!server.Start()) return 1;
//         end.Wait();
//         server.Stop(5s);
//         return 0;
//       });
//     }
// In plain text the first bytes of a client say whether it speaks HTTP/2 ("prior knowledge"): behind a request of
// HTTP/1 the preface of HTTP/2 is refused (505). Over TLS ALPN does:
// http/over_tls.h. A table of paths: http/routes.h.
//
// A handler runs in a CancelScope of its own (sync/cancel_scope.h), which is cancelled when its client has gone, and
// when the deadline of TcpServer::Stop() has passed. How it ends:
//     it returns, and has answered          what is missing of the answer is its end: Finish() is called for it
//     after a Read() or Write() that failed the answer is broken off, so that a part is not taken for all
//     it returns, and has not answered      500; in HTTP/1 after a Read() that failed 408 (its deadline has passed), or
//                                           400 and the like
//     it throws before it answered          500, and a line in the log
//     it throws afterwards                  the answer is broken off, and a line in the log
// What it did not read of the request is thrown away. A client of HTTP/1.1 that ends its side of the connection before
// the answer (a half-close) has gone, unless its request says "Connection: close".
// To break an answer off is, in HTTP/2, a reset of its stream, and in HTTP/1 the end of the connection, without the
// last chunk, or before its content-length; so it is if the handler writes more or less than the content-length that it
// has said.
// A request that is none of HTTP comes to no handler: HTTP/1 answers it by 400, 408, 414, 417, 431, 501 or 505, and
// ends the connection; so it does with CONNECT. HTTP/2: interop/http2_server.h.
//
// HTTP/1: requests of a connection are answered one after the other, in its fiber; between two of them a connection has
// neither a fiber nor a buffer. It ends when its client does so or asks for it, after Http2Options::idle_timeout, in
// the drain of the TcpServer after the answer to a request that has begun, and when a body that the handler has not
// read does not end within 256 KiB (the headers of its chunks count) and 2 s.
// A FiberLocal (fiber/fiber_local.h) belongs to that fiber: a request that comes right behind another one of its
// connection sees what that one has left there, and a later one does not.
// Memory of a connection that is served in HTTP/1, at most, beside its stack:
//     fields      max_header_list for the request's line, for its fields, and for its trailers
//     input       64 KiB, and twice max_header_list and 8 KiB, of which the header of a chunk may have 4 KiB
//     output      64 KiB of a body and as much for the head; 64 KiB more with batches, of answers that wait, and over
//                 TLS for the blocks of a NoncontiguousBuffer
// Strings and buffers that grow take up to twice that, and the old one while its bytes are copied. Input and output of
// 8 connections for each CPU (of 16 at most) are kept for the next ones, if they have at most 64 KiB; and the fields.
//
// Who may call: any fiber and thread. Many fibers call the handler at the same time. Lifetime: the Server outlives the
// TcpServers that it serves.
// Rejected: a second pair of classes for HTTP/1 (a handler would have to be written twice); a writer of its own for
// each connection of HTTP/1 (a switch for each answer).
#ifndef WEFT_HTTP_SERVER_H_
#define WEFT_HTTP_SERVER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include "weft/http/connection/http1_connection.h"
#include "weft/http/message.h"
#include "weft/interop/http2_options.h"
#include "weft/interop/http2_server.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_server.h"

namespace weft::http {

// Limits of a Server and its connections.
struct Options {
  // For HTTP/1 these count: max_header_list, of a request's line and fields as they are sent, and of its fields and of
  // its trailers with 32 bytes a field; idle_timeout; stream_timeout; in plain text settings_timeout, for how long a
  // client may send nothing at first.
  interop::Http2Options limits{};
  // HTTP/1: from the first byte of a request to the end of its header; then 408. 0: no limit.
  std::chrono::milliseconds header_timeout{30'000};
  // HTTP/1: answers to requests that have come together go out together, a system call for all of them. For handlers
  // that do not wait, or call Response::Flush() before: one that waits holds up the answers before its own.
  bool batches_pipelined_answers = false;
};

// See above.
class Server {
 public:
  // Answers a request, in a fiber.
  using Handler = std::function<void(Request&, Response&)>;

  // Many fibers call the handler at the same time.
  explicit Server(Handler handler, const Options& options = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // For the constructor of an io::TcpServer, in plain text. Also for several.
  io::RequestHandler ForTcpServer();

  // Since the Server was made.
  struct Counts {
    // HTTP/1.
    std::uint64_t requests = 0;         // that came to the handler
    std::uint64_t refused = 0;          // that did not
    std::uint64_t too_large = 0;        // among them: the line (414) or the fields (431)
    std::uint64_t header_timeouts = 0;  // among them
    std::uint64_t broken_off = 0;       // answers that did not go out as a whole
    interop::Http2Server::Counts http2;
  };
  // Any fiber and thread.
  Counts counts() const;

  // --- For other transports, as http/over_tls.h has one ---
  // The function of an io::RequestHandler whose client speaks HTTP/1. `transport`: of that connection, and has read
  // ahead (TLS).
  io::AfterRequest ServeHttp1(const interop::Http2Transport& transport, io::TcpConnection& connection,
                              std::string_view scheme);
  interop::Http2Server* http2() noexcept { return &http2_; }
  std::chrono::milliseconds idle_timeout() const noexcept { return options_.limits.idle_timeout; }

 private:
  io::AfterRequest ServePlain(io::TcpConnection& connection);

  const Handler handler_;
  const Options options_;
  Http1Server http1_;
  interop::Http2Server http2_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_SERVER_H_
