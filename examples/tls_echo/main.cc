// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Echoes over TLS, with a certificate made at the start.
//
//   tls_echo --listen=127.0.0.1:8443 &
//   openssl s_client -connect 127.0.0.1:8443 -quiet
//
// How: tls_echo.h; flags of all servers: serving/serving.h.

#include <gflags/gflags.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>

#include "weft/interop/tls_context.h"
#include "weft/io/tcp_connection.h"

#include "serving/serving.h"
#include "tls_echo/certificate.h"
#include "tls_echo/tls_echo.h"

DEFINE_string(name, "localhost", "The host name in the certificate.");
DEFINE_uint32(handshake_timeout_ms, 5'000, "How long a handshake may take, and the good-bye.");
DEFINE_uint32(idle_timeout_ms, 60'000, "How long a connection may be silent, and how long a write may take.");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an echo server over TLS, on fibers");
  gflags::ParseCommandLineFlags(&argc, &argv, true);

  std::string error;
  weft::interop::TlsServerOptions options;
  if (!examples::MakeCertificate(FLAGS_name, &options.certificate_chain_pem, &options.private_key_pem, &error)) {
    std::cerr << "tls_echo: no certificate for --name=" << FLAGS_name << ": " << error << '\n';
    return 2;
  }
  const std::optional<weft::interop::TlsContext> context = weft::interop::TlsContext::ForServer(options, &error);
  if (!context) {
    std::cerr << "tls_echo: " << error << '\n';
    return 1;
  }

  const examples::TlsTimeouts timeouts{.handshake = std::chrono::milliseconds(FLAGS_handshake_timeout_ms),
                                       .idle = std::chrono::milliseconds(FLAGS_idle_timeout_ms)};
  examples::TlsCounts counts;
  examples::Serving serving("tls_echo");
  const int status = serving.Run(
      [&](weft::io::TcpConnection& connection) { examples::EchoTls(&connection, *context, timeouts, &counts); });
  if (status == 0) {
    std::cout << "tls_echo: " << counts.closed_cleanly << " closed cleanly, " << counts.cut_short << " cut short, "
              << counts.timed_out << " timed out, " << counts.stopped << " stopped, " << counts.handshakes_failed
              << " handshakes failed\n";
  }
  return status;
}
