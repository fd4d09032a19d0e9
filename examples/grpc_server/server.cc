// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A gRPC server whose handlers are fibers.  To start from: put your own .proto and handlers in place of
// greeter.proto and greeter_service.h.
//
//   grpc_server --listen=0.0.0.0:50051              until SIGINT or SIGTERM
//   grpc_server --listen=127.0.0.1:0 --duration=10  on a free port, which it prints, for ten seconds
//
// At its end it takes no more calls, lets the current ones go on for --drain_ms, and then cancels them. gRPC's library
// may lose calls that come just then (ShutdownServer() in weft/interop/grpc_server.h); grpc_http2_server loses none.

#include <gflags/gflags.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "weft/base/deadline.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/grpc_server.h"
#include "weft/io/run_until_signal.h"

#include "greeter_service.h"

DEFINE_string(listen, "127.0.0.1:50051", "Where to serve: host:port (port 0: a free one), or unix:/path");
DEFINE_int32(duration, 0, "Seconds to serve; 0: until SIGINT or SIGTERM");
DEFINE_int32(drain_ms, 5000, "At the end, milliseconds that calls under way may go on before they are cancelled");

namespace {

int Refuse(const std::string& why) {
  std::cerr << "grpc_server: " << why << "\n";
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("a gRPC server whose handlers are fibers");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) return Refuse(std::string("unknown argument ") + argv[1] + ": see --help");
  if (FLAGS_duration < 0) return Refuse("--duration=" + std::to_string(FLAGS_duration) + ": it must be 0 or more");
  if (FLAGS_drain_ms < 0) return Refuse("--drain_ms=" + std::to_string(FLAGS_drain_ms) + ": it must be 0 or more");

  weft::examples::GreeterService service;
  std::string address;
  std::unique_ptr<grpc::Server> server;
  const auto start = [&] {
    weft::StartRuntime();  // Before the server: a call that comes in needs it.
    server = weft::examples::StartServer(FLAGS_listen, &service, &address);
    if (server == nullptr) return false;
    std::cout << "listening on " << address << std::endl;
    return true;
  };
  const weft::Deadline end =
      FLAGS_duration == 0 ? weft::Deadline() : weft::Deadline(std::chrono::seconds(FLAGS_duration));
  const bool started = weft::io::RunUntilSignal(start, end) >= 0;
  if (started) {
    std::cout << "draining" << std::endl;
    weft::interop::ShutdownServer(*server, std::chrono::milliseconds(FLAGS_drain_ms));
    std::cout << service.answered() << " calls were answered, " << service.cancelled() << " were cancelled"
              << std::endl;
    server.reset();
  }
  const std::size_t unfinished = weft::TerminateRuntime();
  if (!started) {
    return Refuse("cannot listen on --listen=" + FLAGS_listen + ": it is in use, not allowed, or no host:port");
  }
  return unfinished == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
