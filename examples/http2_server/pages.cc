// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http2_server/pages.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/examples/serving/http_date.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/io_result.h"

namespace examples {
namespace {

using weft::interop::Http2Headers;
using weft::interop::Http2Request;
using weft::interop::Http2Response;
using weft::io::IoResult;

constexpr std::uint64_t kMostBytes = 1 << 30;
constexpr std::uint64_t kLongestSleepMs = 3'600'000;

constexpr std::string_view kPlain = "text/plain";
constexpr std::string_view kJson = "application/json";

// What each answer has beside this field.
Http2Headers WithDate(std::string_view name, std::string_view value) {
  return {{name, value}, {"date", HttpDate::Now().text()}};
}

Http2Headers OfType(std::string_view type) { return WithDate("content-type", type); }

// "/bytes?n=5", "n": 5. None, or no number: 0.
std::uint64_t Argument(std::string_view path, std::string_view name) {
  const std::size_t mark = path.find('?');
  if (mark == std::string_view::npos) return 0;
  std::string_view query = path.substr(mark + 1);
  if (!query.starts_with(name) || query.substr(name.size(), 1) != "=") return 0;
  query.remove_prefix(name.size() + 1);
  std::uint64_t number = 0;
  std::from_chars(query.data(), query.data() + query.size(), number);
  return number;
}

void SendBytes(std::uint64_t size, Http2Response& response) {
  if (response.Start(200, WithDate("content-length", std::to_string(size)))) return;
  const std::string piece(std::min<std::uint64_t>(size, 16'384), 'x');
  while (size != 0) {
    const IoResult put = response.Write(piece.data(), std::min<std::uint64_t>(size, piece.size()));
    if (!put.ok()) return;
    size -= put.bytes;
  }
  static_cast<void>(response.Finish());  // Of an error nobody is left to be told.
}

void Echo(Http2Request& request, Http2Response& response) {
  const std::string_view type = request.headers().Find("content-type");
  if (response.Start(200, OfType(type.empty() ? "application/octet-stream" : type))) return;
  char piece[16'384];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece));
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    if (!response.Write(piece, got.bytes).ok()) return;
  }
  static_cast<void>(response.Finish(request.trailers()));
}

void Count(Http2Request& request, Http2Response& response) {
  std::uint64_t size = 0;
  char piece[16'384];
  for (;;) {
    const IoResult got = request.Read(piece, sizeof(piece));
    if (!got.ok()) return;
    if (got.bytes == 0) break;
    size += got.bytes;
  }
  static_cast<void>(response.Send(200, OfType(kPlain), std::to_string(size) + '\n'));
}

}  // namespace

void ServePage(const Stats& stats, Http2Request& request, Http2Response& response) {
  const std::string_view path = request.path();
  const std::string_view page = path.substr(0, path.find('?'));
  if (page == "/") {
    static_cast<void>(response.Send(200, OfType(kPlain), "Hello from a fiber.\n"));
  } else if (page == "/json") {
    static_cast<void>(response.Send(200, OfType(kJson), R"({"message":"Hello, World!"})"));
  } else if (page == "/stats") {
    static_cast<void>(response.Send(200, OfType(kJson), stats()));
  } else if (page == "/bytes") {
    SendBytes(std::min(Argument(path, "n"), kMostBytes), response);
  } else if (page == "/echo") {
    Echo(request, response);
  } else if (page == "/count") {
    Count(request, response);
  } else if (page == "/sleep") {
    weft::FiberSleepFor(std::chrono::milliseconds(std::min(Argument(path, "ms"), kLongestSleepMs)));
    static_cast<void>(response.Send(200, OfType(kPlain), "Awake.\n"));
  } else {
    static_cast<void>(response.Send(404, OfType(kPlain), "No such page.\n"));
  }
}

}  // namespace examples
