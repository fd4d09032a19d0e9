// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of http::Server: a server on a port of its own, and clients that write bytes and read answers.
#ifndef WEFT_TESTS_HTTP_HTTP_FIXTURE_H_
#define WEFT_TESTS_HTTP_HTTP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/http/server.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::http {

// The test's, and the server's two: it accepts, and looks at time limits.
inline constexpr std::size_t kFibersAtRest = 3;

class ListeningServer {
 public:
  explicit ListeningServer(Server::Handler handler, const Options& options = {}, io::TcpServer::Options tcp = {})
      : http_(std::move(handler), options), server_(Listen(), http_.ForTcpServer(), std::move(tcp)) {
    EXPECT_TRUE(server_.Start());
  }

  io::TcpServer& server() { return server_; }
  const Server& http() const { return http_; }
  io::TcpStream Connect() {
    io::TcpStream stream;
    const std::error_code error = stream.Connect(server_.local_address(), io::Soon());
    EXPECT_FALSE(error) << error.message();
    return stream;
  }

 private:
  static io::TcpListener Listen() {
    io::TcpListener listener;
    EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
    return listener;
  }

  Server http_;
  io::TcpServer server_;
};

// The other end of HTTP/1.
class Client {
 public:
  explicit Client(ListeningServer& server) : stream_(server.Connect()) {}

  io::TcpStream& stream() { return stream_; }
  void Send(std::string_view bytes) { EXPECT_TRUE(stream_.WriteAll(bytes, io::Soon()).ok()); }
  // What comes up to `mark`, with it; or up to the end.
  std::string Until(std::string_view mark) {
    for (;;) {
      if (const std::size_t at = read_.find(mark); at != std::string::npos) return Take(at + mark.size());
      if (!More()) return Take(read_.size());
    }
  }
  // An answer: its head, "\r\n\r\n" included, and a body of its content-length.
  std::string Answer(bool has_body = true) {
    std::string all = Until("\r\n\r\n");
    const std::size_t field = all.find("content-length: ");
    if (field == std::string::npos || !has_body) return all;
    const std::size_t length = std::strtoull(all.c_str() + field + 16, nullptr, 10);
    while (read_.size() < length && More()) {
    }
    return all + Take(std::min(length, read_.size()));
  }
  // Nothing more comes, and the end.
  bool IsOver() { return Until("(no such mark)").empty(); }
  // Of the answer's head.
  static std::string Field(std::string_view answer, std::string_view name) {
    const std::string line = "\r\n" + std::string(name) + ": ";
    const std::size_t at = answer.find(line);
    if (at == std::string_view::npos) return "(none)";
    const std::size_t begin = at + line.size();
    return std::string(answer.substr(begin, answer.find("\r\n", begin) - begin));
  }
  static std::string BodyOf(std::string_view answer) {
    const std::size_t end = answer.find("\r\n\r\n");
    return end == std::string_view::npos ? "(no head)" : std::string(answer.substr(end + 4));
  }

 private:
  bool More() {
    char room[4096];
    const io::IoResult got = stream_.ReadSome(room, sizeof(room), io::Soon());
    EXPECT_NE(got.error, std::errc::timed_out);
    read_.append(room, got.bytes);
    return got.bytes != 0;
  }
  std::string Take(std::size_t size) {
    std::string taken = read_.substr(0, size);
    read_.erase(0, size);
    return taken;
  }

  io::TcpStream stream_;
  std::string read_;
};

// "GET /path HTTP/1.1", with a host.
inline std::string Get(std::string_view target, std::string_view fields = "") {
  return "GET " + std::string(target) + " HTTP/1.1\r\nHost: weft.example\r\n" + std::string(fields) + "\r\n";
}

}  // namespace weft::http

#endif  // WEFT_TESTS_HTTP_HTTP_FIXTURE_H_
