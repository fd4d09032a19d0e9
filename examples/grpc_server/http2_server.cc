// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The service of greeter.proto without gRPC's library: by interop/http2_grpc.h, on fibers all the way down.
//
//   grpc_http2_server --listen=0.0.0.0:50051              until SIGINT or SIGTERM
//   grpc_http2_server --listen=127.0.0.1:0 --duration=10  on a free port, which it prints, for ten seconds
//   grpc_http2_server --tls_certificate=chain.pem --tls_key=key.pem    over TLS
//   grpc_http2_server --listen=systemd                    on the socket that systemd has handed over
//
// At its end it takes no more calls, lets the current ones go on for --drain_ms, and then cancels them. It loses no
// call that races with the stop (weft/interop/http2_server.h), as grpc_server may. Then it prints what it has counted.
//
// A client that has vanished is ended by what it does not do: call (for a minute), send more of a call or take its
// answers (for as long), or answer a PING while a handler works for it or watches for it (--ping_after_ms).

#include <gflags/gflags.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "weft/examples/serving/counts.h"
#include "weft/examples/serving/http2_counts.h"
#include "weft/examples/serving/open_listener.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_grpc.h"
#include "weft/interop/http2_grpc_health.h"
#include "weft/interop/http2_grpc_reflection.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"

#ifdef GRPC_HTTP2_SERVER_WITH_TLS
#include "weft/interop/http2_over_tls.h"
#include "weft/interop/tls_context.h"
#include "weft/interop/tls_stream.h"
#endif

#include "call_counts.h"
#include "examples/grpc_server/greeter.pb.h"

DEFINE_string(listen, "127.0.0.1:50051", "Where to serve: serving/open_listener.h");
DEFINE_int32(duration, 0, "Seconds to serve; 0: until SIGINT or SIGTERM");
DEFINE_int32(drain_ms, 5000, "At the end, milliseconds that calls under way may go on before they are cancelled");
DEFINE_uint64(max_connections, 0, "Connections served at once; more wait in the kernel. 0: no limit");
DEFINE_uint64(max_connections_per_host, 0, "Connections of one client address at once; more are reset. 0: no limit");
DEFINE_int32(ping_after_ms, 30'000,
             "How long a client with calls may be silent before it is asked whether it is there, and then until it "
             "answers. 0: no limit");
DEFINE_string(tls_certificate, "",
              "A PEM file, the certificate and its issuers: serves over TLS. Empty: in plain text");
DEFINE_string(tls_key, "", "A PEM file: the certificate's key");

namespace weft::examples {
namespace {

using interop::GrpcCall;
using interop::GrpcStatus;

class Greeter : public CallCounts {
 public:
  explicit Greeter(interop::Http2GrpcService* service) {
    service->AddUnary<EchoRequest, EchoReply>("/weft.examples.Greeter/Echo",
                                              [this](GrpcCall&, const EchoRequest& request, EchoReply* reply) {
                                                return Count([&] {
                                                  Echo(request, reply);
                                                  return GrpcStatus();
                                                });
                                              });
    service->Add("/weft.examples.Greeter/EchoAll",
                 [this](GrpcCall& call) { return Count([&] { return EchoAll(call); }); });
    service->Add("/weft.examples.Greeter/EchoJoined",
                 [this](GrpcCall& call) { return Count([&] { return EchoJoined(call); }); });
    service->Add("/weft.examples.Greeter/Greet", [this](GrpcCall& call) { return Count([&] { return Greet(call); }); });
  }

 private:
  static void Echo(const EchoRequest& request, EchoReply* reply) {
    if (request.delay_ms() != 0) FiberSleepFor(std::chrono::milliseconds(request.delay_ms()));
    reply->set_payload(request.payload());
  }

  static GrpcStatus EchoAll(GrpcCall& call) {
    EchoRequest request;
    EchoReply reply;
    while (call.Read(&request)) {
      Echo(request, &reply);
      if (!call.Write(reply)) return {interop::GrpcCode::kCancelled};
    }
    if (call.failed()) return {interop::GrpcCode::kInvalidArgument};
    return {};
  }

  static GrpcStatus EchoJoined(GrpcCall& call) {
    EchoRequest request;
    EchoReply reply;
    while (call.Read(&request)) reply.mutable_payload()->append(request.payload());
    if (call.failed() || !call.Write(reply)) return {interop::GrpcCode::kCancelled};
    return {};
  }

  static GrpcStatus Greet(GrpcCall& call) {
    GreetRequest request;
    if (!call.Read(&request)) return {interop::GrpcCode::kInvalidArgument, "a greeting for nobody"};
    GreetReply reply;
    for (std::uint32_t i = 1; i <= request.times(); ++i) {
      if (i != 1) FiberSleepFor(std::chrono::milliseconds(request.interval_ms()));
      reply.set_greeting("hello " + request.name() + ", for the " + std::to_string(i) + ". time");
      if (!call.Write(reply)) return {interop::GrpcCode::kCancelled};
    }
    return {};
  }
};

::examples::TlsRefusals tls_refusals;

// None: *why says why.
std::optional<io::RequestHandler> ServeTls([[maybe_unused]] interop::Http2Server* http, std::string* why) {
#ifdef GRPC_HTTP2_SERVER_WITH_TLS
  interop::TlsServerOptions options;
  options.alpn = {"h2"};
  options.certificate_chain_file = FLAGS_tls_certificate;
  options.private_key_file = FLAGS_tls_key;
  const auto context = interop::TlsContext::ForServer(options, why);
  if (!context) return {};
  const auto count_refused = [](const interop::TlsStream&, std::error_code error) {
    ++(error ? tls_refusals.failed : tls_refusals.not_http2);
  };
  return interop::Http2OverTls(http, *context, {.refused = count_refused});
#else
  *why = "built without OpenSSL";
  return {};
#endif
}

int Refuse(const std::string& why, int status = EXIT_FAILURE) {
  std::cerr << "grpc_http2_server: " << why << "\n";
  return status;
}

int Run() {
  io::TcpListener listener;
  std::string why;
  if (const int failed = ::examples::OpenListener(FLAGS_listen, &listener, &why); failed != 0) {
    return Refuse(why, failed);
  }
  interop::Http2GrpcService service;
  const Greeter greeter(&service);
  interop::Http2GrpcHealth health;  // For load balancers and Kubernetes.
  health.AddTo(&service);
  health.SetServing("weft.examples.Greeter", true);
  interop::Http2GrpcReflection reflection;  // For grpcurl and the like.
  reflection.AddTo(&service);
  interop::Http2Server http(service.handler(), {.ping_after = std::chrono::milliseconds(FLAGS_ping_after_ms),
                                                // Each call whose time is over is a reset.
                                                .max_resets = 10'000,
                                                .resets_per_second = 10'000});
  std::optional<io::RequestHandler> handler = http.ForTcpServer();
  if (!FLAGS_tls_certificate.empty()) {
    std::string why;
    handler = ServeTls(&http, &why);
    if (!handler.has_value()) return Refuse("no TLS: " + why);
  }
  std::optional<io::TcpServer> server;
  const Deadline end = FLAGS_duration == 0 ? Deadline() : Deadline(std::chrono::seconds(FLAGS_duration));
  const int signal = io::RunUntilSignal(
      [&] {
        StartRuntime();
        server.emplace(std::move(listener), *std::move(handler),
                       io::TcpServer::Options{.max_connections = FLAGS_max_connections,
                                              .max_connections_per_host = FLAGS_max_connections_per_host});
        if (!server->Start()) return false;
        std::cout << "listening on " << server->local_address().ToString() << std::endl;
        return true;
      },
      end);
  std::cout << "draining" << std::endl;
  health.Shutdown();
  server->Stop(std::chrono::milliseconds(FLAGS_drain_ms));
  std::cout << "connections: " << ::examples::ToLine(::examples::Named(server->counts())) << '\n'
            << "http2: " << ::examples::ToLine(::examples::Named(http.counts(), tls_refusals)) << '\n';
  server.reset();
  std::cout << greeter.answered() << " calls were answered, " << greeter.cancelled() << " were cancelled" << std::endl;
  const std::size_t unfinished = TerminateRuntime();
  return signal >= 0 && unfinished == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace weft::examples

int main(int argc, char** argv) {
  gflags::SetUsageMessage("gRPC over our own HTTP/2, on fibers");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) return weft::examples::Refuse(std::string("unknown argument ") + argv[1] + ": see --help");
  if (FLAGS_duration < 0 || FLAGS_drain_ms < 0 || FLAGS_ping_after_ms < 0) {
    return weft::examples::Refuse("--duration, --drain_ms and --ping_after_ms: they must be 0 or more");
  }
  return weft::examples::Run();
}
