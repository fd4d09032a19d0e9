// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "tls_echo/tls_echo.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <boost/system/error_code.hpp>

#include "weft/io/asio_stream.h"

namespace examples {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

using TlsStream = asio::ssl::stream<weft::io::AsioStream>;

// On the fiber's stack. A TLS record has at most 16 KiB; a larger one comes in parts.
constexpr std::size_t kReadSize = 4096;

void CountUp(std::atomic<std::uint64_t>* count) { count->fetch_add(1, std::memory_order_relaxed); }  // Statistics.

// Until the peer ends or an error. The error eof is the peer's close_notify.
error_code Echo(TlsStream* tls, const TlsTimeouts& timeouts) {
  for (;;) {
    char data[kReadSize];
    error_code error;
    tls->next_layer().expires_after(timeouts.idle);
    const std::size_t size = tls->read_some(asio::buffer(data), error);
    if (error) return error;
    tls->next_layer().expires_after(timeouts.idle);
    asio::write(*tls, asio::const_buffer(data, size), error);
    if (error) return error;
  }
}

// Sends our close_notify, and waits for the peer's if that has not come.
void Shutdown(TlsStream* tls, const TlsTimeouts& timeouts) {
  tls->next_layer().expires_after(timeouts.handshake);
  error_code ignored;  // There is nobody to tell.
  tls->shutdown(ignored);
}

}  // namespace

void Configure(asio::ssl::context* context) {
  SSL_CTX* const native = context->native_handle();
  SSL_CTX_set_min_proto_version(native, TLS1_2_VERSION);
  SSL_CTX_set_mode(native, SSL_MODE_RELEASE_BUFFERS);
  // Renegotiation lets a peer make us work; TLS 1.3 does not have it.
  SSL_CTX_set_options(native, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
}

void EchoTls(weft::io::TcpStream* stream, asio::ssl::context* context, const Serving& serving,
             const TlsTimeouts& timeouts, TlsCounts* counts) {
  TlsStream tls(weft::io::AsioStream(stream), *context);
  tls.next_layer().expires_after(timeouts.handshake);
  error_code error;
  tls.handshake(TlsStream::server, error);
  if (error) return CountUp(&counts->handshakes_failed);

  error = Echo(&tls, timeouts);
  if (error == asio::error::eof) {
    CountUp(&counts->closed_cleanly);
    Shutdown(&tls, timeouts);
  } else if (error == asio::error::timed_out) {
    CountUp(&counts->timed_out);
    Shutdown(&tls, timeouts);
  } else if (serving.stopping()) {  // The stop ends reads as a peer does that has gone.
    CountUp(&counts->stopped);
    Shutdown(&tls, timeouts);
  } else {
    CountUp(&counts->cut_short);
  }
}

}  // namespace examples
