// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Client: one HTTP/2 connection to a server, by nghttp2, on which many fibers make calls at the same time. For
// programs that have nghttp2, by the CMake target weft::http2.
// Sample:
//     io::TcpStream stream;                                      // or a TlsStream with the ALPN "h2"
//     if (stream.Connect(*io::SocketAddress::Parse("127.0.0.1:8080"), 1s)) return;
//     interop::Http2Client client{interop::Http2Transport(stream)};
//     if (!client.Start()) return;                               // the runtime starts no fibers
//     const interop::Http2Answer answer = client.Ask({.path = "/hello", .authority = "example.org"}, {}, 2s);
//     if (answer.error) return;                                  // kNotBegun: it may be made again
//     Print(answer.status, answer.headers.Find("content-type"), answer.body);
// Sample:
//     interop::Http2Call call;                                   // in pieces
//     if (client.Open({.method = "POST", .path = "/echo", .authority = "example.org"}, &call, 10s)) return;
//     if (!call.Write("ping").ok() || call.Finish()) return;
//     if (call.AwaitAnswer() || call.status() != 200) return;    // the destructor gives the call up
//     char piece[4096];
//     while (call.Read(piece, sizeof(piece)).bytes != 0) {
//     }
//
// A call that is given up, by its destructor, Cancel(), its deadline or its fiber's cancellation, resets its stream
// (RST_STREAM, CANCEL), which tells the server. The deadline is of the whole call. A single read or write may have an
// earlier one: then the call goes on, and what was late may be made again.
//
// Open() waits while the server allows no further stream. After Http2Errc::kNotBegun IsOpen() is false, and a new
// connection is due, unless the server only refused the stream.
//
// Memory of a connection, at most: connection_window for answers' bodies, max_header_list a call, 16 KiB for a read,
// send_buffer a call, 80 KiB in the write. As many calls as the server allows, and each waiting Open() holds nothing.
//
// Who may call: any fiber and thread. One Http2Call: one fiber reads while another one writes. The stream outlives the
// client, and nothing else uses it. The destructor: when no call is left (else the process ends); it says GOAWAY, and
// waits up to a second for a server that does not read. Errors: io/io_result.h and Http2Errc.
#ifndef WEFT_INTEROP_HTTP2_CLIENT_H_
#define WEFT_INTEROP_HTTP2_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/interop/http2_error.h"
#include "weft/interop/http2_headers.h"
#include "weft/interop/http2_options.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/io_result.h"

namespace weft::interop {

class Http2ClientConnection;
struct Http2Stream;

// The first line of a request, and its fields.
struct Http2RequestHead {
  // In capitals: HTTP/2 tells "GET" from "get".
  std::string_view method = "GET";
  // With the query.
  std::string_view path = "/";
  std::string_view authority = {};  // "host:port"; without it a header "host", which beside it says the same
  // "https" over TLS.
  std::string_view scheme = "http";
  // Further fields; names in lower case.
  Http2Headers headers = {};
};

// The answer to Ask().
struct Http2Answer {
  std::error_code error;  // then the rest is what had come until then
  // 200 to 599; 0: none has come.
  int status = 0;
  // Its fields, those that begin with a colon first.
  Http2Headers headers;
  // As it was sent: nothing is decompressed.
  std::string body;
  // The fields after the body; mostly none.
  Http2Headers trailers;
  std::uint32_t reset_code = 0;  // if the error is kStreamReset: HTTP/2's number in RST_STREAM
};

// One call of a client. One fiber reads while another one writes.
class Http2Call {
 public:
  Http2Call() = default;  // of no request
  // The other one is of no request then.
  Http2Call(Http2Call&& other) noexcept;
  Http2Call& operator=(Http2Call&& other) noexcept;
  // Gives it up, if it has not ended.
  ~Http2Call();

  // The body of a request that was opened with one.
  [[nodiscard]] io::IoResult Write(const void* data, std::size_t size, Deadline deadline = {});
  [[nodiscard]] io::IoResult Write(std::string_view text, Deadline deadline = {}) {
    return Write(text.data(), text.size(), deadline);
  }
  // The end of the request's body, with trailers if there are any. A request without it is not complete.
  [[nodiscard]] std::error_code Finish(const Http2Headers& trailers = {});

  // Until the header fields of the answer are there. (Those of an interim answer, 1xx, are skipped.)
  [[nodiscard]] std::error_code AwaitAnswer(Deadline deadline = {});
  // After that.
  int status() const;
  const Http2Headers& headers() const;
  // Bytes of the body. 0 without an error: it has ended.
  [[nodiscard]] io::IoResult Read(void* data, std::size_t size, Deadline deadline = {});
  // After Read() has found the end.
  const Http2Headers& trailers() const;
  // After an error kStreamReset: HTTP/2's number in RST_STREAM.
  std::uint32_t reset_code() const;

  // Gives the call up: its stream is reset, which tells the server. Does not wait.
  void Cancel();
  // Gives the call up, too, as soon as the server takes no more calls on the connection (GOAWAY): for a call without an
  // end, which a server that drains would wait for. It ends with kConnectionLost.
  void CancelOnGoAway();
  // Whether it has a call, also one that has ended.
  bool IsOpen() const noexcept { return stream_ != nullptr; }

 private:
  friend class Http2Client;
  std::error_code After(std::error_code error);
  void Abandon() noexcept;
  Http2Stream& Checked(const char* caller) const;

  Http2ClientConnection* connection_ = nullptr;
  Http2Stream* stream_ = nullptr;  // a reference
  Deadline deadline_;
};

class Http2Client {
 public:
  static constexpr std::size_t kMaxBody = 1 << 20;  // of an answer's body, unless Ask() is told

  // Over a stream that is connected; nothing is sent yet. `transport`'s stream outlives the client.
  explicit Http2Client(const Http2Transport& transport, const Http2Options& options = {});
  ~Http2Client();
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // Once, first: starts the fiber that reads. False: the runtime starts no fibers.
  [[nodiscard]] bool Start();

  // Begins a call with a body (Write(), Finish()), or without one.
  [[nodiscard]] std::error_code Open(const Http2RequestHead& head, Http2Call* call, Deadline deadline = {});
  [[nodiscard]] std::error_code OpenWithoutBody(const Http2RequestHead& head, Http2Call* call, Deadline deadline = {});
  // A whole call. message_size: the answer's body is larger than max_body.
  [[nodiscard]] Http2Answer Ask(const Http2RequestHead& head, std::string_view body, Deadline deadline = {},
                                std::size_t max_body = kMaxBody);

  [[nodiscard]] std::error_code Ping(Deadline deadline = {});  // until the server has answered

  // New calls may begin: no GOAWAY has come, no write has failed, and the connection has not ended.
  bool IsOpen() const;
  // Ends the connection: calls end with kConnectionLost; new ones, and those of which nothing was sent, with kNotBegun.
  void Close();

 private:
  std::error_code OpenAs(const Http2RequestHead& head, bool body, Http2Call* call, Deadline deadline);

  const Http2Options options_;
  const std::unique_ptr<Http2ClientConnection> connection_;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_CLIENT_H_
