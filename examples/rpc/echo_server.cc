// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A server of EchoService:  echo_server --listen=127.0.0.1:8000
//
// Prints "listening on <address>" and runs until SIGTERM or SIGINT; then it answers what it has and prints its counts.

#include <gflags/gflags.h>

#include <chrono>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "weft/examples/rpc/echo_service.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/examples/rpc/scheduler_report.h"
#include "weft/examples/rpc/server_report.h"
#include "weft/examples/serving/memory_trim.h"
#include "weft/examples/serving/open_listener.h"
#include "weft/fiber/runtime.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/tcp_listener.h"

DEFINE_string(listen, "127.0.0.1:8000", "Where to listen: serving/open_listener.h");
DEFINE_uint64(max_in_flight, 0, "Requests in work at once; more are answered \"overloaded\". 0: no limit");
DEFINE_uint64(max_in_flight_per_connection, 0, "The same for each connection. 0: no limit");
DEFINE_uint64(max_request_mb, 0, "Memory of the requests in work, in MiB: as max_in_flight. 0: no limit");
DEFINE_uint64(max_connections_per_host, 0, "Connections of one client address at once; more are reset. 0: no limit");
DEFINE_uint32(idle_timeout_ms, 0, "How long a connection may send no request. 0: no limit");
DEFINE_uint32(ping_after_ms, 30'000, "How long a client may be silent before it is pinged. 0: no limit");
DEFINE_uint32(ping_timeout_ms, 20'000, "How long it may stay silent then: examples/rpc/heartbeat.h");
DEFINE_int32(drain_ms, 5000, "How long what is in flight may take after SIGTERM");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  weft::io::TcpListener listener;
  std::string why;
  if (const int failed = examples::OpenListener(FLAGS_listen, &listener, &why); failed != 0) {
    std::cerr << why << "\n";
    return failed;
  }
  weft::rpc::EchoServiceImpl echo;
  std::optional<weft::rpc::Server> server;
  std::optional<examples::MemoryTrim> trim;
  const auto start = [&] {
    weft::StartRuntime();
    server.emplace(
        weft::rpc::Server::Options{.max_in_flight = FLAGS_max_in_flight,
                                   .max_in_flight_per_connection = FLAGS_max_in_flight_per_connection,
                                   .max_request_memory = FLAGS_max_request_mb << 20,
                                   .heartbeat = {.ping_after = std::chrono::milliseconds(FLAGS_ping_after_ms),
                                                 .timeout = std::chrono::milliseconds(FLAGS_ping_timeout_ms)},
                                   .connections = {.idle_timeout = std::chrono::milliseconds(FLAGS_idle_timeout_ms),
                                                   .max_connections_per_host = FLAGS_max_connections_per_host}});
    server->AddService(&echo);
    if (!server->Start(std::move(listener)) || !trim.emplace().Start()) return false;
    std::cout << "listening on " << server->local_address().ToString() << std::endl;
    return true;
  };
  const bool started = weft::io::RunUntilSignal(start) >= 0;
  if (started) {
    server->Stop(std::chrono::milliseconds(FLAGS_drain_ms));
    weft::rpc::PrintServerReport(server->counts(), std::cout);
    weft::rpc::PrintSchedulerReport(std::cout);
  } else {
    std::cerr << "no fibers can be started\n";
  }
  trim.reset();
  server.reset();
  weft::TerminateRuntime();
  return started ? 0 : 1;
}
