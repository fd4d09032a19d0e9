// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// AddCounts(): what a server of HTTP counts, for its /metrics (weft/observe/metrics.h).
#ifndef WEFT_EXAMPLES_SERVING_HTTP_METRICS_H_
#define WEFT_EXAMPLES_SERVING_HTTP_METRICS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/http/server.h"
#include "weft/io/tcp_server.h"
#include "weft/observe/metrics.h"

namespace examples {

// Of the TcpServer, and of the requests; all but the runtime's.
inline void AddCounts(const weft::io::TcpServer::Counts& connections, const weft::http::Server& server,
                      weft::MetricsText* text) {
  text->Add("http", connections);
  const weft::http::Server::Counts counts = server.counts();
  const auto of = [](std::string_view version, std::uint64_t count) {
    return weft::MetricsText::Value{{{"version", std::string(version)}}, static_cast<double>(count)};
  };
  text->Counter("http_requests", "Requests that came to a handler.",
                {of("1", counts.requests), of("2", counts.http2.requests)});
  text->Counter("http_requests_refused", "Requests that came to none.",
                {of("1", counts.refused), of("2", counts.http2.refused)});
  text->Counter("http_answers_broken_off", "Answers that did not go out as a whole.", {of("1", counts.broken_off)});
}

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_HTTP_METRICS_H_
