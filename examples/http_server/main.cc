// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An HTTP/1.1 server: a fiber for each request, written as if it blocked; a connection that waits has none.
//
//   http_server --listen=127.0.0.1:8080 &
//   curl -s 'http://127.0.0.1:8080/fanout?n=8&deadline_ms=50'
//
// What it serves: site.h; how: http_connection.h; flags of all servers: serving/serving.h.

#include <gflags/gflags.h>

#include <cstdint>
#include <iostream>

#include "weft/io/tcp_connection.h"
#include "weft/net/budgets.h"

#include "http_server/http_connection.h"
#include "http_server/site.h"
#include "serving/serving.h"

DEFINE_uint32(header_limit, 8192, "Bytes of a request's line and header fields, at most 65536.");
DEFINE_uint64(body_limit, 1024 * 1024, "Bytes of a request's body.");
DEFINE_uint32(idle_timeout_ms, 60'000, "How long a connection may wait for its next request.");
DEFINE_uint64(max_body_mb, 0,
              "Memory of the bodies of all requests at once, in MiB; more are answered 503. 0: no limit.");
DEFINE_uint64(max_waiting_requests, 0,
              "Requests in work at once that wait for something; more are answered 503. 0: no limit.");
DEFINE_uint32(request_timeout_ms, 30'000, "How long a request may take to arrive, and its answer to be taken.");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an HTTP/1.1 server on fibers");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_header_limit == 0 || FLAGS_header_limit > 65536) {
    std::cerr << "http_server: --header_limit=" << FLAGS_header_limit << ": expected 1 to 65536\n";
    return 2;
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  if (FLAGS_max_body_mb != 0 &&
      (FLAGS_max_body_mb > UINT64_MAX / kMiB || FLAGS_max_body_mb * kMiB < FLAGS_body_limit)) {
    std::cerr << "http_server: --max_body_mb=" << FLAGS_max_body_mb
              << ": expected 0, or room for a body of --body_limit=" << FLAGS_body_limit << '\n';
    return 2;
  }
  const examples::HttpLimits limits{.header_bytes = FLAGS_header_limit,
                                    .body_bytes = FLAGS_body_limit,
                                    .request_timeout = std::chrono::milliseconds(FLAGS_request_timeout_ms)};
  examples::Serving serving("http_server");
  weft::io::RequestBudget budget({.requests = FLAGS_max_waiting_requests, .bytes = FLAGS_max_body_mb * kMiB});
  examples::Site site(&serving, &budget);
  examples::HttpService http(&site, &limits, &budget);
  const std::chrono::milliseconds idle_timeout(FLAGS_idle_timeout_ms);
  return serving.Run(
      weft::io::RequestHandler([&http](weft::io::TcpConnection& connection) { return http.Serve(&connection); }),
      {.first_request_timeout = idle_timeout, .idle_timeout = idle_timeout});
}
