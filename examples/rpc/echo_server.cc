// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A server of EchoService:  echo_server --listen=127.0.0.1:8000
//
// Prints "listening on <address>" and runs until SIGTERM or SIGINT; then it answers what it has and prints its counts.

#include <gflags/gflags.h>

#include <chrono>
#include <iostream>

#include "weft/examples/rpc/echo_service.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/examples/rpc/scheduler_report.h"
#include "weft/examples/rpc/termination.h"
#include "weft/fiber/runtime.h"
#include "weft/io/socket_address.h"

DEFINE_string(listen, "127.0.0.1:8000", "Address to listen on; port 0: the kernel chooses one");
DEFINE_uint64(max_in_flight, 0, "Requests in work at once; more are answered \"overloaded\". 0: no limit");
DEFINE_int32(drain_ms, 5000, "How long what is in flight may take after SIGTERM");

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  const auto address = weft::io::SocketAddress::Parse(FLAGS_listen);
  if (!address) {
    std::cerr << "--listen=" << FLAGS_listen << ": expected an address like 127.0.0.1:8000 or unix:/run/echo.sock\n";
    return 2;
  }
  const weft::rpc::TerminationSignals signals;
  weft::fiber::StartRuntime();

  int status = 0;
  {
    weft::rpc::EchoServiceImpl echo;
    weft::rpc::Server server({.max_in_flight = FLAGS_max_in_flight});
    server.AddService(&echo);
    if (const std::error_code error = server.Start(*address)) {
      std::cerr << "cannot listen on " << FLAGS_listen << ": " << error.message() << "\n";
      status = 1;
    } else {
      std::cout << "listening on " << server.local_address().ToString() << std::endl;
      signals.Wait();
      server.Stop(std::chrono::milliseconds(FLAGS_drain_ms));
      const weft::rpc::Server::Counts counts = server.counts();
      std::cout << "requests " << counts.requests << ", overloaded " << counts.overloaded << ", late " << counts.late
                << ", bad " << counts.bad << "; frames sent " << counts.answers << " by " << counts.writes
                << " writes, reads " << counts.reads << "\n";
      weft::rpc::PrintSchedulerReport(std::cout);
    }
  }
  weft::fiber::TerminateRuntime();
  return status;
}
