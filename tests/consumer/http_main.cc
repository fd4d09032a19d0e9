// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that uses weft::http: a client asks a server in HTTP/1.1.
#include <weft/fiber/fiber.h>
#include <weft/fiber/runtime.h>
#include <weft/http/routes.h>
#include <weft/http/server.h>
#include <weft/io/tcp_server.h>
#include <weft/io/tcp_stream.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;

namespace {

int Ask() {
  weft::http::Routes routes;
  routes.Add("GET", "/hello", [](weft::http::Request&, weft::http::Response& response) {
    static_cast<void>(response.Send(200, {}, "hello"));
  });
  weft::http::Server http(std::move(routes));
  weft::io::TcpListener listener;
  if (listener.Listen(weft::io::SocketAddress::LoopbackIpv4(0))) return 1;
  weft::io::TcpServer server(std::move(listener), http.ForTcpServer());
  weft::io::TcpStream client;
  if (!server.Start() || client.Connect(server.local_address(), 5s)) return 1;
  const std::string_view request = "GET /hello HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  char answer[1024];
  if (!client.WriteAll(request, 5s).ok()) return 1;
  const weft::io::IoResult got = client.ReadAll(answer, sizeof(answer), 5s);
  return got.ok() && std::string_view(answer, got.bytes).ends_with("\r\n\r\nhello") ? 0 : 1;
}

}  // namespace

int main() {
  int status = 1;
  weft::StartRuntime();
  weft::Fiber([&] { status = Ask(); }).Join();
  weft::TerminateRuntime();
  return status;
}
