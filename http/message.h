// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// http::Request, http::Response: what a handler of an http::Server (http/server.h) gets and gives, the same for HTTP/1
// and HTTP/2.
// Sample:
//     const auto echo = [](http::Request& request, http::Response& response) {
//       if (response.Start(200, {{"content-type", "application/octet-stream"}})) return;
//       char piece[4096];
//       for (;;) {
//         const io::IoResult got = request.Read(piece, sizeof(piece), 30s);
//         if (!got.ok()) return;                            // no Finish(): the client learns that it is not the whole
//         if (got.bytes == 0) break;
//         if (!response.Write(piece, got.bytes, 30s).ok()) return;
//       }
//       static_cast<void>(response.Finish());
//     };
//
// Who may call: their handler, and the fibers that it waits for; one reads while another one writes. In HTTP/1 a body
// that is read while the answer is written has one fiber for both. Calls that take a deadline may switch, and are
// cancellation points; without one they end after Http2Options::stream_timeout.
// Lifetime: until the handler returns; so do all views.
// Errors: those of io/io_result.h, and Http2Errc, which HTTP/1 uses, too:
//   kBadField       a name or a value that cannot be sent: http2_headers.h; two fields `content-length`, or one among
//                   trailers; a status that is not from 200 to 599. Nothing was sent.
//   kWrongOrder     calls in an order that cannot be; a body that is longer or shorter than its `content-length`
//   kConnectionLost the client has gone in the middle of its request
//   kProtocolError  what it sends is none of HTTP
//   message_size    ReadAll(): there is more
// After another error of Read() or Write() the answer is broken off; HTTP/1 takes no further byte of it (broken_pipe).
#ifndef WEFT_HTTP_MESSAGE_H_
#define WEFT_HTTP_MESSAGE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/http/connection/exchange.h"
#include "weft/interop/http2_headers.h"
#include "weft/io/io_result.h"

namespace weft::http {

// Names are of lower-case letters, whatever the client has written.
using Field = interop::Http2Field;
using Fields = interop::Http2Headers;

// What a client asks.
class Request {
 public:
  // By the server.
  explicit Request(Exchange* exchange) : exchange_(exchange) {}
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  std::string_view method() const { return exchange_->line().method; }  // "GET"
  // As sent, "/path?query", without the scheme and the host that it may have had; or "*".
  std::string_view target() const { return exchange_->line().target; }
  std::string_view path() const { return target().substr(0, target().find('?')); }
  // Behind the question mark; empty if there is none.
  std::string_view query() const;
  // The host and the port that the client asks; in HTTP/2 its `host` if it has no `:authority`. Empty if it is of
  // HTTP/1.0, and has not said it.
  std::string_view authority() const { return exchange_->line().authority; }
  std::string_view scheme() const { return exchange_->line().scheme; }  // "http" or "https"
  int version() const { return exchange_->line().version; }             // 10, 11 or 20
  // In HTTP/2 those that begin with a colon, which say what the functions above say, come first.
  const Fields& headers() const { return exchange_->headers(); }

  // Bytes of the body, as they have come. 0 without an error: it has ended. A client of HTTP/1 that waits for "100
  // Continue" gets it from the first Read(), or from a Start() with a status below 300. After a Start() with another
  // status, which says that the body is not wanted, Read() returns kWrongOrder at once.
  [[nodiscard]] io::IoResult Read(void* data, std::size_t size, Deadline deadline = {}) {
    return exchange_->Read(data, size, deadline);
  }
  // Appends all that is to come, at most `max` bytes.
  [[nodiscard]] std::error_code ReadAll(std::string* body, std::size_t max, Deadline deadline = {});
  // After Read() has found the end.
  const Fields& trailers() const { return exchange_->trailers(); }
  // The TcpServer drains: io::TcpConnection::draining(). Any fiber and thread.
  bool draining() const noexcept { return exchange_->draining(); }

 private:
  Exchange* const exchange_;
};

// The answer, of which there is one.
class Response {
 public:
  // By the server.
  explicit Response(Exchange* exchange) : exchange_(exchange) {}
  Response(const Response&) = delete;
  Response& operator=(const Response&) = delete;

  // The header fields. `status`: 200 to 599; another one is kBadField. A field `date` is added, unless there is one. In
  // HTTP/1 they go out with the first of what follows, and a body whose `content-length` is not given goes in chunks,
  // or to a client of HTTP/1.0 up to the end of the connection. To HEAD, and with the status 204 or 304, the body of
  // what follows is dropped; with 204 its `content-length`, too.
  [[nodiscard]] std::error_code Start(int status, const Fields& headers = {}) {
    return exchange_->Start(status, headers);
  }
  // `bytes`: how many were taken over, to be sent.
  [[nodiscard]] io::IoResult Write(const void* data, std::size_t size, Deadline deadline = {}) {
    return exchange_->Write({static_cast<const char*>(data), size}, deadline);
  }
  [[nodiscard]] io::IoResult Write(std::string_view text, Deadline deadline = {}) {
    return exchange_->Write(text, deadline);
  }
  [[nodiscard]] io::IoResult Write(const NoncontiguousBuffer& body, Deadline deadline = {}) {
    return exchange_->Write(body, deadline);
  }
  // Sends what has been put together so far, before the handler waits for something: in HTTP/1 the header fields after
  // a Start(), and answers to earlier requests that wait to go out with others (Options::batches_pipelined_answers).
  [[nodiscard]] std::error_code Flush(Deadline deadline = {}) { return exchange_->Flush(deadline); }
  // The end. A client of HTTP/1 gets the trailers if the body goes in chunks.
  [[nodiscard]] std::error_code Finish(const Fields& trailers = {}) { return exchange_->Finish(trailers); }
  // A whole answer, with its `content-length`: one write, if the body is short.
  [[nodiscard]] std::error_code Send(int status, const Fields& headers, std::string_view body, Deadline deadline = {}) {
    return exchange_->Send(status, headers, body, deadline);
  }
  // Gives the answer up: the client learns that what has come is not the whole. HTTP/1 ends the connection.
  void Reset() { exchange_->Reset(); }
  // Start() or Send() has succeeded.
  bool started() const noexcept { return exchange_->started(); }

 private:
  Exchange* const exchange_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_MESSAGE_H_
