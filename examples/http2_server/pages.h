// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What http2_server serves:
//
//   GET  /                  a line
//   GET  /json              {"message":"Hello, World!"}
//   GET  /bytes?n=100000    so many bytes, at most 1 GiB
//   POST /echo              the request's body, piece by piece as it comes, its content type, and its trailers
//   POST /count             reads the body to its end, and answers with its size
//   GET  /sleep?ms=1000     answers after that time, at most an hour
//   GET  /stats             what the server has counted, as JSON
//   GET  /metrics           the same, and what the scheduler has counted, for Prometheus
#ifndef WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
#define WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_

#include <functional>
#include <string>

#include "weft/http/routes.h"

namespace examples {

// How /stats and /metrics are made.
using MakePage = std::function<std::string()>;

weft::http::Routes MakePages(MakePage stats, MakePage metrics);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
