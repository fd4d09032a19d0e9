// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An HTTP server: a fiber for each request, written as if it blocked; a connection that waits has none.
//
//   http_server --listen=127.0.0.1:8080 &
//   curl -s 'http://127.0.0.1:8080/fanout?n=8&deadline_ms=50'
//
// What it serves: site.h; how: weft/http/server.h; flags of all servers: serving/serving.h.

#include <gflags/gflags.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>

#include "weft/http/server.h"
#include "weft/net/budgets.h"

#include "http_server/site.h"
#include "serving/admin.h"
#include "serving/serving.h"

DEFINE_uint32(header_limit, 8192,
              "Bytes of a request's line and header fields, with 32 for each field, at most 65536.");
DEFINE_uint64(body_limit, 1024 * 1024, "Bytes of a request's body.");
DEFINE_uint32(idle_timeout_ms, 60'000, "How long a connection may wait for its next request.");
DEFINE_uint64(max_body_mb, 0,
              "Memory of the bodies of all requests at once, in MiB; more are answered 503. 0: no limit.");
DEFINE_uint64(max_waiting_requests, 0,
              "Requests in work at once that wait for something; more are answered 503. 0: no limit.");
DEFINE_uint32(request_timeout_ms, 30'000, "How long a request may take to arrive, and its answer to be taken.");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an HTTP server on fibers");
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
  const std::chrono::milliseconds request_timeout(FLAGS_request_timeout_ms);
  weft::http::Options options;
  options.limits.max_header_list = FLAGS_header_limit;
  options.limits.idle_timeout = std::chrono::milliseconds(FLAGS_idle_timeout_ms);
  options.limits.settings_timeout = options.limits.idle_timeout;  // Also before the first request.
  options.limits.stream_timeout = request_timeout;
  options.header_timeout = request_timeout;
  options.batches_pipelined_answers = true;
  examples::Serving serving("http_server");
  weft::io::RequestBudget budget({.requests = FLAGS_max_waiting_requests, .bytes = FLAGS_max_body_mb * kMiB});
  examples::Site site(&serving, &budget, {.body_bytes = FLAGS_body_limit, .request_timeout = request_timeout});
  weft::http::Server http(site.MakeRoutes(), options);
  site.SetServer(&http);
  examples::Admin admin("http_server", [&site](weft::MetricsText* text) { site.AddMetrics(text); });
  std::string why;
  if (!admin.Listen(&why)) {
    std::cerr << "http_server: " << why << '\n';
    return 1;
  }
  serving.SetBeside([&admin] { return admin.Start(); }, [&admin] { admin.Stop(); });
  return serving.Run(http.ForTcpServer());
}
