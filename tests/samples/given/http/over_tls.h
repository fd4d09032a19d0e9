// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "weft/http/over_tls.h"
#include "weft/interop/tls_context.h"
#include "weft/io/tcp_server.h"
void handler(http::Request& request, http::Response& response);
extern interop::TlsServerOptions options;
extern std::string why;
extern io::TcpListener listener;
