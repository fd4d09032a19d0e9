// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// ServeHttp: one connection, from its first request to its end. HTTP/1.0 and HTTP/1.1: keep-alive, pipelining,
// Content-Length and chunked bodies, "Expect: 100-continue", HEAD.
//
// How it works. A loop of three steps: parse the input buffer; answer each complete request into the output buffer;
// where the input ends, write all answers at once and read. So a single request costs one recv() and one send(), and so
// does a pipeline of them.
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
// A connection that waits for a request holds its fiber's touched stack (8 KiB) and an input buffer of 1 KiB.
#ifndef WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_
#define WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/io/tcp_connection.h"

#include "http_server/site.h"

namespace examples {

struct HttpLimits {
  // Request line 414, header fields 431. Twice as many may pass if a header comes in parts.
  std::uint32_t header_bytes = 8192;
  std::uint64_t body_bytes = 1024 * 1024;  // 413
  // From the answer to the first byte of the next request. Then the connection is closed silently.
  std::chrono::milliseconds idle_timeout{60'000};
  // From the first byte of a request to the last of its body: 408. For a slow reader: for all answers that wait.
  std::chrono::milliseconds request_timeout{30'000};
};

// A fiber. Leaves the connection for its owner to close.
void ServeHttp(weft::io::TcpConnection* connection, Site* site, const HttpLimits& limits);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP_SERVER_HTTP_CONNECTION_H_
