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
#ifndef WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
#define WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_

#include <functional>
#include <string>

#include "weft/interop/http2_server.h"

namespace examples {

using Stats = std::function<std::string()>;

// A handler of Http2Server, if it is told how /stats is made.
void ServePage(const Stats& stats, weft::interop::Http2Request& request, weft::interop::Http2Response& response);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
