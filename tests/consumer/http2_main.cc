// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program that uses weft::http2: a server and a client talk over a loopback connection.
#include <weft/fiber/fiber.h>
#include <weft/fiber/runtime.h>
#include <weft/interop/http2_client.h>
#include <weft/interop/http2_server.h>
#include <weft/io/tcp_listener.h>

#include <chrono>

using namespace std::chrono_literals;

namespace {

int Talk() {
  weft::io::TcpListener listener;
  weft::io::TcpStream ours, theirs;
  if (listener.Listen(weft::io::SocketAddress::LoopbackIpv4(0)) || ours.Connect(listener.local_address(), 5s) ||
      listener.Accept(&theirs, 5s)) {
    return 1;
  }
  weft::interop::Http2Server server([](weft::interop::Http2Request&, weft::interop::Http2Response& response) {
    static_cast<void>(response.Send(200, {}, "hello"));
  });
  weft::Fiber serving([&] { static_cast<void>(server.Serve(weft::interop::Http2Transport(theirs))); });
  int status = 1;
  {
    weft::interop::Http2Client client{weft::interop::Http2Transport(ours)};
    if (client.Start()) status = client.Ask({.authority = "localhost"}, {}, 5s).body == "hello" ? 0 : 1;
  }
  ours.Close();
  serving.Join();
  return status;
}

}  // namespace

int main() {
  int status = 1;
  weft::StartRuntime();
  weft::Fiber([&] { status = Talk(); }).Join();
  weft::TerminateRuntime();
  return status;
}
