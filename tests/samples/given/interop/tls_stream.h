// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
io::TcpStream stream;
extern const interop::TlsContext server_context, client_context;
