// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// HttpService: answers the requests of a connection that have come. HTTP/1.0 and HTTP/1.1: keep-alive, pipelining,
// Content-Length and chunked bodies, "Expect: 100-continue", HEAD.
//
// How it works. A loop of three steps: read; parse the input buffer; answer each complete request into the output
// buffer. Where the input ends all answers are written at once. If no request has begun then, the connection waits for
// the next one without a fiber and without a buffer. So a single request costs one recv() and one send(), and so does a
// pipeline of them.
// Boost.Beast's http::basic_parser does the parsing. Our callbacks keep what is needed, so a request allocates nothing
// and makes no tree of header fields. http_connection.cc is the only file that includes Beast.
//
// A request that may wait is answered in a scope (weft/sync/cancel_scope.h), and all fibers that it starts are in it.
// The scope ends after "Request-Timeout-Ms: <milliseconds>", a header that tells how long the client will wait, counted
// from the request's arrival: then the answer is a 504. It ends when the client hangs up; then there is none. A reset
// is a hang-up. So is the end of the client's data on a connection that is to be kept alive: what keeps it waits there
// with both sides open. A client that has finished sending and still reads says so: "Connection: close", or HTTP/1.0.
// And it ends when Serving's time to drain is over.
//
// What ends a connection: "Connection: close" (and HTTP/1.0 without keep-alive), a peer that has finished, a request
// that cannot be served (after an answer whose status says why), an error, a limit below, and the drain
// (weft/io/tcp_connection.h): a request that has begun is read to its end, and its answer says "Connection: close".
// A refused peer may still be sending: its data is read and thrown away for a moment, because closing with unread
// data would reset the connection before the peer has read the answer.
//
// Connections that pipeline take turns (weft/io/tcp_connection.h): after so many requests in a row the answers are
// written, and others run.
//
// The buffers of the connections that are served at a time come from a pool.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_
#define WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_server.h"
#include "weft/net/budgets.h"

#include "http_server/site.h"
#include "serving/sharded.h"

namespace examples {

struct HttpLimits {
  // Request line 414, header fields 431. Twice as many may pass if a header comes at once.
  std::uint32_t header_bytes = 8192;
  std::uint64_t body_bytes = 1024 * 1024;  // 413
  // From the first byte of a request to the last of its body: 408. For a slow reader: for all answers that wait.
  std::chrono::milliseconds request_timeout{30'000};
};

class HttpService {
 public:
  // All outlive it. What exceeds the budget, of requests that wait or of bytes of bodies, is answered 503.
  HttpService(Site* site, const HttpLimits* limits, weft::io::RequestBudget* budget);
  ~HttpService();

  // A RequestHandler; many fibers at the same time.
  weft::io::AfterRequest Serve(weft::io::TcpConnection* connection);

 private:
  struct Workspace;
  class Conversation;

  Site* const site_;
  const HttpLimits* const limits_;
  weft::io::RequestBudget* const budget_;
  ObjectPool<Workspace> workspaces_;
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_
