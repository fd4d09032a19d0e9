// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Server: serves HTTP/2 connections, by nghttp2; a fiber for each request. By the CMake target weft::http2.
// Sample:
//     const auto handler = [](interop::Http2Request& request, interop::Http2Response& response) {
//       if (request.path() == "/hello") {
//         static_cast<void>(response.Send(200, {{"content-type", "text/plain"}}, "hello\n"));
//         return;
//       }
//       if (response.Start(200)) return;
//       char piece[4096];                                   // echoes, piece by piece
//       for (;;) {
//         const io::IoResult got = request.Read(piece, sizeof(piece), 30s);
//         if (!got.ok()) return;                            // no Finish(): the client learns that it is not the whole
//         if (got.bytes == 0) break;
//         if (!response.Write(piece, got.bytes, 30s).ok()) return;
//       }
//       static_cast<void>(response.Finish());
//     };
//     interop::Http2Server http(handler);
//     io::TcpListener listener;
//     io::TcpServer server(std::move(listener), http.ForTcpServer());          // prior knowledge
// Over TLS: interop/http2_over_tls.h. Over other streams, or with a fiber for each connection: Serve().
//
// A handler runs in a CancelScope of its own (sync/cancel_scope.h), inside those of the fiber that serves. It is
// cancelled when the client resets the stream, and when the connection ends before the answer has been sent; whether
// the server's drain has begun by then says Http2Request::draining(). How it ends:
//     it returns, and has answered          what is missing of the answer is its end: Finish() is called for it
//     after a Read() or Write() that failed the stream is reset: INTERNAL_ERROR, so that a part is not taken for all
//     it returns, and has not answered      500
//     it throws before it answered          500, and a line in the log
//     it throws afterwards                  the stream is reset: INTERNAL_ERROR, and a line in the log
// What it did not read of the request is thrown away. A client that has not sent all is told to stop (RST_STREAM,
// NO_ERROR) after the answer.
// A malformed request comes to no handler, and its stream is reset: PROTOCOL_ERROR. One whose `host` names another
// server than its authority is malformed.
//
// Serve() returns when the connection is over and all its handlers have returned. The connection is over when
//     the client closes it, or says GOAWAY and has no stream any more
//     no handler has run for Http2Options::idle_timeout
//     the client has been silent for twice Http2Options::ping_after: GOAWAY; handlers are cancelled
//     the client breaks the protocol, or one of the limits of http2_options.h: GOAWAY; handlers are cancelled
//     the TcpServer drains: GOAWAY with the last possible stream and a PING; after its answer, or a second, GOAWAY with
//       the last stream that has come. The requests up to it are answered, then the connection closes. The deadline of
//       TcpServer::Stop() cancels the handlers
//     the calling fiber is cancelled
// The return value is none after a regular end, and else says why.
// TcpServer::Options: for idle connections use idle_timeout here; first_request_timeout and idle_timeout there end a
// connection without streams, too.
//
// A connection of ForTcpServer() has no fiber while it is idle: from 100 ms after the last byte of a client that has no
// stream and has acknowledged our settings. It has neither a stack nor a buffer then, and of nghttp2 the entries of
// HPACK and an image of less than 1 KiB (http2_frame_room.h says of what). All else is as above, but:
//     the server's SETTINGS go out when the client has sent something, for which it has settings_timeout
//     of a client that waits without a fiber the TcpServer ends the wait, at Http2Options::idle_timeout or by one of
//       its Options, up to an eighth of that later, and counts it, too (timed_out). It says GOAWAY as ever. The
//       time-outs of the TcpServer are not for connections that have a fiber, and begin when it goes
//     with ping_after, but no idle_timeout, connections keep their fibers, which send the PINGs
//     after the deadline of Stop() a connection that waits is closed without a GOAWAY
//
// Memory of a connection, at most:
//     what clients send     connection_window for bodies (for each stream its stream_window; 65,535 until the client
//                           has acknowledged our settings), whose buffers may be four times as large, and 16 KiB a
//                           stream; max_header_list a handler for fields, and the field that exceeds it; 16 KiB for a
//                           read, which are given back when nothing has come for 100 ms, with a TlsStream's buffers
//                           and the write's; what a later answer takes, when next nothing has come for so long
//     handlers              their stacks, of max_handlers
//     what they are sent    send_buffer a stream, 80 KiB in the write, nghttp2's queue of max_queued_frames, and three
//                           for each of max_concurrent_streams
//     nghttp2               HPACK tables of 4 KiB each way, about 1 KiB a stream, 16 KiB for the frame that is sent, of
//                           which all but a page or two are given back, too
// A stream that is reset goes at once; its handler counts for max_handlers until it has returned. All connections
// together: max_server_handlers, max_server_bodies, TcpServer's max_connections and max_connections_per_host. They have
// no limit unless you set one: do so where clients are not trusted.
//
// Who may call: Serve(): a fiber, once for each connection, many at the same time; not the handler of an
// io::RequestHandler. Request and response: their handler and the fibers that it waits for; one reads while another one
// writes. The Http2Server outlives its connections, hence a TcpServer that it serves.
// Errors: io/io_result.h and Http2Errc. Cancellation and deadlines as in io/: a call that was ended may be made again.
#ifndef WEFT_INTEROP_HTTP2_SERVER_H_
#define WEFT_INTEROP_HTTP2_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/interop/http2_error.h"
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_options.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/io_result.h"
#include "weft/io/tcp_server.h"
#include "weft/net/budgets.h"

namespace weft::interop {

class Http2ServerConnection;
struct Http2Stream;

// A request, for its handler and the fibers that the handler waits for.
class Http2Request {
 public:
  Http2Request(const Http2Request&) = delete;
  Http2Request& operator=(const Http2Request&) = delete;

  // "GET", "POST" ...
  std::string_view method() const { return headers().Find(":method"); }
  std::string_view path() const { return headers().Find(":path"); }  // with the query; empty for CONNECT
  // "host:port"; empty if the client sends "host" instead.
  std::string_view authority() const { return headers().Find(":authority"); }
  // "http" or "https", as the client says.
  std::string_view scheme() const { return headers().Find(":scheme"); }
  // All, those that begin with a colon first.
  const Http2Headers& headers() const;

  // Bytes of the body, as they have come. 0 without an error: it has ended. Each byte that is read lets the client send
  // one more. Without a deadline: Http2Options::stream_timeout.
  [[nodiscard]] io::IoResult Read(void* data, std::size_t size, Deadline deadline = {});
  // All that is to come, at most `max` bytes. message_size: there is more.
  [[nodiscard]] std::error_code ReadAll(std::string* body, std::size_t max, Deadline deadline = {});
  // After Read() has found the end.
  const Http2Headers& trailers() const;
  // HTTP/2's number of the request on its connection, for logs.
  std::int32_t stream_id() const;
  // The TcpServer drains: TcpConnection::draining(). After a cancellation, false: the client has gone; true: that, or
  // the drain's deadline has passed. Always false without a TcpConnection. Any fiber and thread; never waits.
  bool draining() const noexcept;

 private:
  friend class Http2ServerConnection;
  Http2Request(Http2ServerConnection* connection, Http2Stream* stream) : connection_(connection), stream_(stream) {}

  Http2ServerConnection* const connection_;
  Http2Stream* const stream_;
};

// The answer to a request, for its handler and the fibers that the handler waits for.
class Http2Response {
 public:
  Http2Response(const Http2Response&) = delete;
  Http2Response& operator=(const Http2Response&) = delete;

  // The header fields go out. `status`: 200 to 599. kBadField: nothing was sent, and it may be called again.
  // To HEAD, and with the status 204 or 304, the body of what follows is dropped.
  [[nodiscard]] std::error_code Start(int status, const Http2Headers& headers = {});
  // Returns when all is buffered: it waits while the client's windows and the buffer are full. `bytes`: how much was.
  // Without a deadline: Http2Options::stream_timeout.
  [[nodiscard]] io::IoResult Write(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] io::IoResult Write(std::string_view text, Deadline deadline = {}) {
    return Write(text.data(), text.size(), deadline);
  }
  // The same without a copy into the buffer: the stream shares the blocks until their bytes go into a write. A deleter
  // of NoncontiguousBuffer::AppendForeign() may be called with the connection locked, by any fiber or thread: it does
  // not wait, and calls nothing of a request or response.
  [[nodiscard]] io::IoResult Write(const NoncontiguousBuffer& body, Deadline deadline = {});
  // The end. Never waits.
  [[nodiscard]] std::error_code Finish(const Http2Headers& trailers = {});
  // A whole answer: with one frame less, and one system call, if the body fits.
  [[nodiscard]] std::error_code Send(int status, const Http2Headers& headers, std::string_view body,
                                     Deadline deadline = {});
  [[nodiscard]] std::error_code Send(int status, const Http2Headers& headers, std::string_view body,
                                     const Http2Headers& trailers, Deadline deadline = {});
  // Gives the answer up: RST_STREAM, CANCEL. The client learns that what has come is not the whole.
  void Reset();
  // Whether header fields have gone out.
  bool started() const noexcept { return started_; }

 private:
  friend class Http2ServerConnection;
  Http2Response(Http2ServerConnection* connection, Http2Stream* stream) : connection_(connection), stream_(stream) {}

  Http2ServerConnection* const connection_;
  Http2Stream* const stream_;
  bool started_ = false;
};

class Http2Server {
 public:
  // Answers a request, in a fiber of its own.
  using Handler = std::function<void(Http2Request&, Http2Response&)>;

  // Many fibers call the handler at the same time.
  explicit Http2Server(Handler handler, const Http2Options& options = {});
  Http2Server(const Http2Server&) = delete;
  Http2Server& operator=(const Http2Server&) = delete;

  // Serves a connection, in the calling fiber, until it is over and its handlers have returned. None: a regular end;
  // else what has ended it.
  std::error_code Serve(const Http2Transport& transport);
  // For the constructor of an io::TcpServer, in plain text. Also for several. See above.
  io::RequestHandler ForTcpServer();
  // Those of the constructor.
  const Http2Options& options() const noexcept { return options_; }

  // What it has counted since it was made.
  struct Counts {
    // Connections that were served.
    std::uint64_t connections = 0;
    std::uint64_t requests = 0;  // handlers that were started
    std::uint32_t handlers = 0;  // now
    // Streams: by max_concurrent_streams, a limit of handlers or a refused fiber; not by the last GOAWAY of a drain.
    std::uint64_t refused = 0;
    std::uint64_t over_bodies = 0;  // streams reset by max_server_bodies
    std::size_t body_bytes = 0;     // now, not read; 0 without max_server_bodies
    std::uint64_t too_large = 0;  // above max_header_list: requests that got 431, and streams reset for their trailers
    std::uint64_t reset = 0;      // by clients, or because of an error of theirs, before their answer
    // Connections, when they have ended:
    std::uint64_t protocol_errors = 0;    // the client broke HTTP/2
    std::uint64_t flooded = 0;            // by a limit against floods: Http2Errc::kFlooded
    std::uint64_t idle_timeouts = 0;      // Http2Options::idle_timeout, or one of the TcpServer
    std::uint64_t write_timeouts = 0;     // Http2Options::write_timeout
    std::uint64_t settings_timeouts = 0;  // among the protocol errors
    std::uint64_t ping_timeouts = 0;      // Http2Options::ping_after
  };
  // Any fiber and thread.
  Counts counts() const;

 private:
  friend class Http2ServerConnection;
  friend class Http2Connection;

  // relaxed: statistics.
  struct Tally {
    std::atomic<std::uint64_t> connections{0}, requests{0}, refused{0}, too_large{0}, reset{0}, protocol_errors{0},
        flooded{0}, idle_timeouts{0}, write_timeouts{0}, settings_timeouts{0}, ping_timeouts{0};
  };

  const Handler handler_;
  const Http2Options options_;
  Tally tally_;
  std::atomic<std::uint32_t> handlers_{0};  // H2V6
  io::RequestBudget bodies_;                // max_server_bodies
};

// What ForTcpServer() is made of, for handlers of one's own: a connection that may wait without a fiber. It is kept in
// TcpConnection::state(), and so is what is below it. RequestHandler::SetLongestWaits() gets the idle_timeout of the
// options, so that the TcpServer looks often enough. Under one that never looks connections keep their fibers.
// Who may call: the connection's fiber. The destructor: any thread, not during a call; it does not wait. That of a
// connection that is not over says nothing to the client.
class Http2Connection {
 public:
  // The transport has the io::TcpConnection.
  Http2Connection(Http2Server* server, const Http2Transport& transport);
  ~Http2Connection();
  Http2Connection(const Http2Connection&) = delete;
  Http2Connection& operator=(const Http2Connection&) = delete;

  // By the function of the RequestHandler, which returns what it returns: kWaitForNext when the connection is idle, and
  // kClose when it is over. Waits in between, and ends as Http2Server::Serve() when its fiber is cancelled.
  [[nodiscard]] io::AfterRequest Serve();
  // By the Goodbye of the RequestHandler: ends the connection as a drain or an idle time-out does. Returns when it is
  // over. In a drain, requests that come are served before.
  void SayGoodbye();

 private:
  const Http2Transport transport_;
  std::unique_ptr<Http2ServerConnection> connection_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_SERVER_H_
