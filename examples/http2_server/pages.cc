// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http2_server/pages.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "weft/fiber/this_fiber.h"
#include "weft/http/message.h"
#include "weft/io/io_result.h"

namespace examples {
namespace {

using weft::http::Fields;
using weft::http::Request;
using weft::http::Response;
using weft::io::IoResult;

constexpr std::uint64_t kMostBytes = 1 << 30;
constexpr std::uint64_t kLongestSleepMs = 3'600'000;

const Fields kPlain{{"content-type", "text/plain"}};
const Fields kJson{{"content-type", "application/json"}};
const Fields kMetrics{{"content-type", "text/plain; version=0.0.4; charset=utf-8"}};

// A whole answer. Of an error nobody is left to be told.
void Send(Response& response, const Fields& fields, std::string_view body) {
  static_cast<void>(response.Send(200, fields, body));
}

// "n=5", "n": 5. None, or no number: 0.
std::uint64_t Argument(std::string_view query, std::string_view name) {
  if (!query.starts_with(name) || query.substr(name.size(), 1) != "=") return 0;
  query.remove_prefix(name.size() + 1);
  std::uint64_t number = 0;
  std::from_chars(query.data(), query.data() + query.size(), number);
  return number;
}

void SendBytes(std::uint64_t size, Response& response) {
  if (response.Start(200, {{"content-length", std::to_string(size)}})) return;
  const std::string piece(std::min<std::uint64_t>(size, 16'384), 'x');
  while (size != 0) {
    const IoResult put = response.Write(piece.data(), std::min<std::uint64_t>(size, piece.size()));
    if (!put.ok()) return;
    size -= put.bytes;
  }
  static_cast<void>(response.Finish());
}

void Echo(Request& request, Response& response) {
  const std::string_view type = request.headers().Find("content-type");
  if (response.Start(200, {{"content-type", type.empty() ? "application/octet-stream" : type}})) return;
  char piece[16'384];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece));
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    if (!response.Write(piece, got.bytes).ok()) return;
  }
  static_cast<void>(response.Finish(request.trailers()));
}

void Count(Request& request, Response& response) {
  std::uint64_t size = 0;
  char piece[16'384];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece));
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    size += got.bytes;
  }
  Send(response, kPlain, std::to_string(size) + '\n');
}

}  // namespace

weft::http::Routes MakePages(MakePage stats, MakePage metrics) {
  weft::http::Routes routes;
  routes.Add("GET", "/", [](Request& request, Response& response) {
    if (request.path() == "/") return Send(response, kPlain, "Hello from a fiber.\n");
    static_cast<void>(response.Send(404, kPlain, "No such page.\n"));
  });
  routes.Add("GET", "/json",
             [](Request&, Response& response) { Send(response, kJson, R"({"message":"Hello, World!"})"); });
  routes.Add("GET", "/bytes", [](Request& request, Response& response) {
    SendBytes(std::min(Argument(request.query(), "n"), kMostBytes), response);
  });
  routes.Add("POST", "/echo", &Echo);
  routes.Add("POST", "/count", &Count);
  routes.Add("GET", "/sleep", [](Request& request, Response& response) {
    const std::uint64_t ms = std::min(Argument(request.query(), "ms"), kLongestSleepMs);
    weft::FiberSleepFor(std::chrono::milliseconds(ms));
    Send(response, kPlain, "Awake.\n");
  });
  routes.Add("GET", "/stats",
             [stats = std::move(stats)](Request&, Response& response) { Send(response, kJson, stats()); });
  routes.Add("GET", "/metrics",
             [metrics = std::move(metrics)](Request&, Response& response) { Send(response, kMetrics, metrics()); });
  return routes;
}

}  // namespace examples
