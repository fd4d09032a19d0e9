// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "tls_echo/tls_echo.h"

#include <system_error>

#include "weft/interop/tls_stream.h"

namespace examples {
namespace {

using weft::interop::TlsErrc;
using weft::interop::TlsStream;
using weft::io::IoResult;

// On the fiber's stack. A TLS record has at most 16 KiB; a larger one comes in parts.
constexpr std::size_t kReadSize = 4096;

void CountUp(std::atomic<std::uint64_t>* count) { count->fetch_add(1, std::memory_order_relaxed); }  // Statistics.

// Until the peer ends, which is no error.
std::error_code Echo(TlsStream* tls, const TlsTimeouts& timeouts) {
  for (;;) {
    char data[kReadSize];
    if (std::error_code error = tls->AwaitRequest(timeouts.idle)) return error;
    const IoResult got = tls->ReadRequest(data, sizeof(data), timeouts.idle);
    if (!got.ok() || got.bytes == 0) return got.error;
    if (const IoResult put = tls->WriteAll(data, got.bytes, timeouts.idle); !put.ok()) return put.error;
  }
}

}  // namespace

void EchoTls(weft::io::TcpConnection* connection, const weft::interop::TlsContext& context, const TlsTimeouts& timeouts,
             TlsCounts* counts) {
  TlsStream tls(*connection, context);
  if (tls.Handshake(timeouts.handshake)) return CountUp(&counts->handshakes_failed);

  const std::error_code error = Echo(&tls, timeouts);
  if (!error) {
    CountUp(&counts->closed_cleanly);
  } else if (error == std::errc::timed_out) {
    CountUp(&counts->timed_out);
  } else if (error == std::errc::operation_canceled && connection->draining()) {
    CountUp(&counts->stopped);
  } else {
    return CountUp(&counts->cut_short);
  }
  static_cast<void>(tls.ShutdownWrite(timeouts.handshake));  // There is nobody to tell of an error.
}

}  // namespace examples
