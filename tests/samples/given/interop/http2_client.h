// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
void Print(int status, std::string_view type, std::string_view body);
interop::Http2Client& client = *new interop::Http2Client(interop::Http2Transport(*new io::TcpStream));
