// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include <any>
#include <memory>

#include "weft/io/tcp_server.h"
io::TcpStream stream;
io::TcpListener listener;
extern const interop::TlsContext server_context, client_context;
