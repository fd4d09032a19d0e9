// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/interop/tls_stream.h"
extern io::TcpConnection& connection;
extern interop::TlsStream& tls;
