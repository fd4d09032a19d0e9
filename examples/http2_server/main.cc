// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A server of HTTP/2, and of HTTP/1: a fiber for each request. In plain text, for clients of HTTP/2 that know it
// ("prior knowledge"), or over TLS, where ALPN chooses.
//
//   http2_server --listen=127.0.0.1:8080 &
//   curl --http2-prior-knowledge http://127.0.0.1:8080/
//   http2_server --listen=127.0.0.1:8443 --tls &          # with a certificate made at the start
//   curl --insecure https://127.0.0.1:8443/
//
// What it serves: pages.h; flags of all servers: serving/serving.h.
//
// A client that has vanished is ended by what it does not do: send a request (--idle_timeout_ms) or more of one
// (--stream_timeout_ms), take its answer (--stream_timeout_ms, --write_timeout_ms), or answer a PING while a handler
// works for it (--ping_after_ms). /stats and the report at the end count them, and whatever else was refused.

#include <gflags/gflags.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>

#include "weft/fiber/this_fiber.h"
#include "weft/http/server.h"
#include "weft/io/tcp_server.h"
#include "weft/observe/metrics.h"

#include "http2_server/pages.h"
#include "serving/admin.h"
#include "serving/counts.h"
#include "serving/http2_counts.h"
#include "serving/http_metrics.h"
#include "serving/serving.h"

#ifdef HTTP2_SERVER_WITH_TLS
#include "weft/http/over_tls.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"

#include "tls_echo/certificate.h"
#endif

DEFINE_bool(tls, false, "Over TLS. Without the two files, with a certificate for localhost, made at the start.");
DEFINE_string(tls_certificate, "", "A PEM file: the certificate and its issuers.");
DEFINE_string(tls_key, "", "A PEM file: the certificate's key.");
DEFINE_uint32(max_streams, 100, "Requests of a connection at once.");
DEFINE_uint32(stream_window, 65'535, "Bytes of a request's body that may wait to be read.");
DEFINE_uint64(max_body_mb, 0,
              "MiB of the bodies of all requests that may wait to be read; requests beyond it are reset. 0: no limit.");
DEFINE_uint32(idle_timeout_ms, 60'000, "How long a connection may have no request.");
DEFINE_uint32(stream_timeout_ms, 60'000, "How long a request may wait for more of its body, and an answer for room.");
DEFINE_uint32(write_timeout_ms, 30'000, "How long a client may take nothing of what it is sent.");
DEFINE_uint32(ping_after_ms, 30'000,
              "How long a client with requests may be silent before it is asked whether it is there, and then until it "
              "answers. 0: no limit.");

namespace examples {
namespace {

using weft::io::RequestHandler;
using HttpServer = weft::http::Server;

TlsRefusals tls_refusals;

// None: *why says why.
std::optional<RequestHandler> ServeTls([[maybe_unused]] HttpServer* http, std::string* why) {
#ifdef HTTP2_SERVER_WITH_TLS
  weft::interop::TlsServerOptions options;
  options.alpn = {"h2", "http/1.1"};
  options.certificate_chain_file = FLAGS_tls_certificate;
  options.private_key_file = FLAGS_tls_key;
  if (FLAGS_tls_certificate.empty() &&
      !MakeCertificate("localhost", &options.certificate_chain_pem, &options.private_key_pem, why)) {
    return {};
  }
  const auto context = weft::interop::TlsContext::ForServer(options, why);
  if (!context) return {};
  const auto count_refused = [](const weft::interop::TlsStream&, std::error_code error) {
    ++(error ? tls_refusals.failed : tls_refusals.not_http2);
  };
  return weft::http::OverTls(http, *context, {.refused = count_refused});
#else
  *why = "built without OpenSSL";
  return {};
#endif
}

std::string DescribeCounts(const Serving& serving, const HttpServer& http) {
  return "{\"connections\":" + ToJson(Named(serving.counts())) +
         ",\"http1\":" + std::to_string(http.counts().requests) +
         ",\"http2\":" + ToJson(Named(http.counts().http2, tls_refusals)) +
         ",\"fibers\":" + std::to_string(weft::GetFiberCount()) + "}";
}

std::string DescribeMetrics(const Serving& serving, const HttpServer& http) {
  weft::MetricsText text(weft::MetricsFormat::kPrometheus);
  text.Add(weft::Metrics());
  AddCounts(serving.counts(), http, &text);
  return text.Take();
}

}  // namespace
}  // namespace examples

int main(int argc, char** argv) {
  gflags::SetUsageMessage("a server of HTTP/2 and HTTP/1 on fibers");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_max_streams == 0 || FLAGS_stream_window >= 1u << 31) {
    std::cerr << "http2_server: --max_streams is at least 1, and --stream_window below 2^31\n";
    return 2;
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  if (FLAGS_max_body_mb > UINT64_MAX / kMiB) {
    std::cerr << "http2_server: --max_body_mb=" << FLAGS_max_body_mb << ": expected at most " << UINT64_MAX / kMiB
              << '\n';
    return 2;
  }
  weft::http::Options http_options;
  weft::interop::Http2Options& options = http_options.limits;
  options.max_server_bodies = FLAGS_max_body_mb * kMiB;
  options.max_concurrent_streams = FLAGS_max_streams;
  options.stream_window = FLAGS_stream_window;
  options.idle_timeout = std::chrono::milliseconds(FLAGS_idle_timeout_ms);
  options.stream_timeout = std::chrono::milliseconds(FLAGS_stream_timeout_ms);
  options.write_timeout = std::chrono::milliseconds(FLAGS_write_timeout_ms);
  options.ping_after = std::chrono::milliseconds(FLAGS_ping_after_ms);
  examples::Serving serving("http2_server");
  std::optional<examples::HttpServer> http;
  http.emplace(examples::MakePages([&] { return examples::DescribeCounts(serving, *http); },
                                   [&] { return examples::DescribeMetrics(serving, *http); }),
               http_options);
  std::optional<examples::RequestHandler> handler = http->ForTcpServer();
  if (FLAGS_tls) {
    std::string why;
    handler = examples::ServeTls(&*http, &why);
    if (!handler.has_value()) {
      std::cerr << "http2_server: no TLS: " << why << '\n';
      return 2;
    }
  }
  examples::Admin admin("http2_server",
                        [&](weft::MetricsText* text) { examples::AddCounts(serving.counts(), *http, text); });
  std::string why;
  if (!admin.Listen(&why)) {
    std::cerr << "http2_server: " << why << '\n';
    return 1;
  }
  serving.SetBeside([&admin] { return admin.Start(); }, [&admin] { admin.Stop(); });
  const int status = serving.Run(*std::move(handler));
  if (status == 0) {
    std::cout << "http2_server: http2: " << examples::ToLine(Named(http->counts().http2, examples::tls_refusals))
              << '\n';
  }
  return status;
}
