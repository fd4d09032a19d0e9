// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a server of HTTP/2 has counted, by name (serving/counts.h).
#ifndef WEFT_EXAMPLES_SERVING_HTTP2_COUNTS_H_
#define WEFT_EXAMPLES_SERVING_HTTP2_COUNTS_H_

#include <atomic>
#include <cstdint>

#include "weft/examples/serving/counts.h"
#include "weft/interop/http2_server.h"

namespace examples {

// Connections that TLS has turned away, so that Http2Server does not know them. Any fiber.
struct TlsRefusals {
  std::atomic<std::uint64_t> failed{0};     // no handshake, or not in time
  std::atomic<std::uint64_t> not_http2{0};  // the client does not offer "h2"
};

inline NamedCounts Named(const weft::interop::Http2Server::Counts& counts, const TlsRefusals& tls) {
  return {{"connections", counts.connections},
          {"requests", counts.requests},
          {"handlers", counts.handlers},
          {"refused", counts.refused},
          {"over_bodies", counts.over_bodies},
          {"body_bytes", counts.body_bytes},
          {"too_large", counts.too_large},
          {"reset", counts.reset},
          {"protocol_errors", counts.protocol_errors},
          {"flooded", counts.flooded},
          {"idle_timeouts", counts.idle_timeouts},
          {"write_timeouts", counts.write_timeouts},
          {"settings_timeouts", counts.settings_timeouts},
          {"ping_timeouts", counts.ping_timeouts},
          {"tls_failed", tls.failed},
          {"tls_not_http2", tls.not_http2}};
}

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_HTTP2_COUNTS_H_
