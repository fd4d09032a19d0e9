// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// EchoTls: a TLS connection from its handshake to its close_notify; it sends back what it receives.
//
// How it ends: our close_notify answers the peer's. A peer that just closes its connection has cut the stream short (a
// truncation attack looks the same) and gets nothing. A peer that is silent for longer than the idle timeout gets our
// close_notify; so do all when the server stops. A handshake that fails or takes too long ends the connection at once.
#ifndef WEFT_EXAMPLES_TLS_ECHO_TLS_ECHO_H_
#define WEFT_EXAMPLES_TLS_ECHO_TLS_ECHO_H_

#include <atomic>
#include <chrono>
#include <cstdint>

#include "weft/interop/tls_context.h"
#include "weft/io/tcp_connection.h"

namespace examples {

struct TlsTimeouts {
  std::chrono::milliseconds handshake{5'000};
  std::chrono::milliseconds idle{60'000};  // for a read; for a write
};

// How connections have ended.
struct TlsCounts {
  std::atomic<std::uint64_t> handshakes_failed{0};
  std::atomic<std::uint64_t> closed_cleanly{0};  // by the peer's close_notify
  std::atomic<std::uint64_t> timed_out{0};
  std::atomic<std::uint64_t> stopped{0};  // by us
  std::atomic<std::uint64_t> cut_short{0};
};

// A fiber.
void EchoTls(weft::io::TcpConnection* connection, const weft::interop::TlsContext& context, const TlsTimeouts& timeouts,
             TlsCounts* counts);

}  // namespace examples

#endif  // WEFT_EXAMPLES_TLS_ECHO_TLS_ECHO_H_
