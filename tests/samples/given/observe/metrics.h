// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/http/routes.h"
#include "weft/io/tcp_server.h"
extern http::Routes routes;
extern io::TcpServer& server;
extern double baskets;
