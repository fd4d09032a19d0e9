// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that uses weft::http: a client asks a server, and the admin pages, in HTTP/1.1.
#include <weft/fiber/fiber.h>
#include <weft/fiber/runtime.h>
#include <weft/http/admin_server.h>
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

// What the server at this address says.
std::string Ask(const weft::io::SocketAddress& address, std::string_view path) {
  const std::string request = "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  weft::io::TcpStream client;
  if (client.Connect(address, 5s) || !client.WriteAll(request, 5s).ok()) return {};
  std::string answer(64 * 1024, '\0');
  answer.resize(client.ReadAll(answer.data(), answer.size(), 5s).bytes);
  return answer;
}

bool ServesHello() {
  weft::http::Routes routes;
  routes.Add("GET", "/hello", [](weft::http::Request&, weft::http::Response& response) {
    static_cast<void>(response.Send(200, {}, "hello"));
  });
  weft::http::Server http(std::move(routes));
  weft::io::TcpListener listener;
  if (listener.Listen(weft::io::SocketAddress::LoopbackIpv4(0))) return false;
  weft::io::TcpServer server(std::move(listener), http.ForTcpServer());
  return server.Start() && Ask(server.local_address(), "/hello").ends_with("\r\n\r\nhello");
}

bool ServesAdminPages() {
  weft::http::AdminServer admin({.pages = {.title = "consumer"}});
  std::string why;
  if (!admin.Listen("127.0.0.1:0", &why) || !admin.Start()) return false;
  const std::string url = admin.url();  // http://127.0.0.1:41234/
  const auto address = weft::io::SocketAddress::Parse(std::string_view(url).substr(7, url.size() - 8));
  return Ask(*address, "/").ends_with("</html>\n") &&
         Ask(*address, "/api/overview").find("\"title\":\"consumer\"") != std::string::npos;
}

}  // namespace

int main() {
  bool done = false;
  weft::StartRuntime();
  weft::Fiber([&] { done = ServesHello() && ServesAdminPages(); }).Join();
  weft::TerminateRuntime();
  return done ? 0 : 1;
}
