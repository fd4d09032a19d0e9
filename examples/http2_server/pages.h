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
#ifndef WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
#define WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_

#include "weft/interop/http2_server.h"

namespace examples {

// A handler of Http2Server.
void ServePage(weft::interop::Http2Request& request, weft::interop::Http2Response& response);

}  // namespace examples

#endif  // WEFT_EXAMPLES_HTTP2_SERVER_PAGES_H_
