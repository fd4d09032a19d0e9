// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http1Server: the part of an http::Server (http/server.h) that speaks HTTP/1.0 and HTTP/1.1: keep-alive, pipelining,
// bodies of known length and in chunks both ways, "Expect: 100-continue", HEAD.
//
// How it works. The connection's fiber reads a header, calls the handler, which reads the body and writes the answer
// through the same fiber, and goes on with the next request. Where the input ends it returns, and the connection waits
// without a fiber and without a buffer. So a request costs one read and one write. The buffers of the connections that
// are served at a time come from a pool.
//
// The handler runs in a scope that ends when the client hangs up. The end of the client's data is a hang-up on a
// connection that is to be kept alive: what keeps it waits with both sides open. A client that has finished sending and
// still reads says so: "Connection: close", or HTTP/1.0.
//
// What ends a connection: "Connection: close" (and HTTP/1.0 without keep-alive), a client that has finished, a request
// that cannot be served (after an answer whose status says why), an answer that is broken off, a body that the handler
// has not read and that does not end within kMostDropped bytes and 2 s, an error, a time limit, and the drain: a
// request that has begun is answered, and the answer says "connection: close".
// A client that still sends has its data read and thrown away for a moment: closing with unread data would reset the
// connection before it has read the answer.
//
// Invariants
//   HC1  The bytes of an answer go out in order, and nothing behind an answer that was broken off: its connection ends,
//        and what was not written of it stays unwritten. Whole answers before it, of its batch, go out.
//   HC2  A request is parsed from where the one before it has ended, or not at all: after an answer the body is read to
//        its end, or the connection ends.
#ifndef WEFT_HTTP_CONNECTION_HTTP1_CONNECTION_H_
#define WEFT_HTTP_CONNECTION_HTTP1_CONNECTION_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/memory/object_pool.h"
#include "weft/http/message.h"
#include "weft/interop/http2_transport.h"
#include "weft/io/tcp_connection.h"

namespace weft::http {

struct Http1Limits {
  std::uint32_t max_header = 16 * 1024;         // 414, 431: Http1Parser
  std::chrono::milliseconds header_timeout{0};  // from the first byte of a request to the end of its header: 408
  std::chrono::milliseconds stream_timeout{0};  // calls without a deadline
  bool batches_answers = false;
};

// relaxed: statistics.
struct Http1Tally {
  std::atomic<std::uint64_t> connections{0}, requests{0}, refused{0}, too_large{0}, header_timeouts{0}, broken_off{0};
};

class Http1Server {
 public:
  using Handler = std::function<void(Request&, Response&)>;

  Http1Server(const Handler* handler, const Http1Limits& limits);
  ~Http1Server();

  enum class Served : std::uint8_t { kWaits, kOver, kHttp2 };
  struct Stream {
    interop::Http2Transport transport;
    io::TcpConnection* connection;
    std::string_view scheme;
    bool reads_ahead;  // a return with kWaits is right only when a read has found nothing: TLS
  };
  // The function of an io::RequestHandler. kHttp2: the client has sent HTTP/2's preface; what has come is in *preface,
  // and belongs to the next reader. `preface`: nullptr where that cannot be.
  Served Serve(const Stream& stream, std::string* preface);

  const Http1Tally& tally() const noexcept { return tally_; }

  // Of a body that no handler has read, with the headers of its chunks.
  static constexpr std::size_t kMostDropped = 256 * 1024;

 private:
  class Connection;
  struct Workspace;

  const Handler* const handler_;
  const Http1Limits limits_;
  base::ObjectPool<Workspace> workspaces_;
  Http1Tally tally_;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP1_CONNECTION_H_
