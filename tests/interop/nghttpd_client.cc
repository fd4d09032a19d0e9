// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Client against another implementation's server: for nghttpd_test.py.
//   nghttpd_client <port> <workers> <what to do>
//     ask <path> <file>    GETs the path and POSTs the file, many at once; each answer must be the file
//     interrupted <path>   reads a part of the answer, and says "reading"; after a line on standard input it expects
//                          that the rest does not come
//     late <path>          says "answered"; after a line it expects that a call is late, and says so; after another
//                          line the same connection must serve
// Exit status 0: all was as expected.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/http2_client.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_stream.h"

namespace {

using namespace std::chrono_literals;
using weft::Deadline;
using weft::interop::Http2Answer;
using weft::interop::Http2Call;
using weft::interop::Http2Client;
using weft::interop::Http2Errc;
using weft::interop::Http2RequestHead;

constexpr auto kPatience = 60s;  // A regular run never waits so long.
constexpr int kFibers = 10;
constexpr int kRounds = 3;

Http2RequestHead To(std::string_view path, std::string_view method = "GET") {
  return {.method = method, .path = path, .authority = "127.0.0.1"};
}

int Fail(std::string_view what, std::error_code error = {}) {
  std::cerr << what << ": " << error.message() << '\n';
  return 1;
}

void SayAndAwaitALine(std::string_view word) {
  std::cout << word << std::endl;
  std::string line;
  std::getline(std::cin, line);
}

bool IsRight(const Http2Answer& answer, std::string_view body) {
  if (!answer.error && answer.status == 200 && answer.body == body) return true;
  Fail("status " + std::to_string(answer.status) + ", " + std::to_string(answer.body.size()) + " bytes", answer.error);
  return false;
}

int AskMany(Http2Client& client, const std::string& path, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(in), {}};
  // Its settings have come before its answer: it refuses no stream.
  if (const auto error = client.Ping(Deadline(kPatience))) return Fail("Ping", error);
  std::atomic<int> right{0};
  weft::FiberScope scope;
  for (int fiber = 0; fiber < kFibers; ++fiber) {
    const bool started = scope.Spawn([&] {
      for (int i = 0; i < kRounds; ++i) {
        const std::size_t most = content.size();
        right += IsRight(client.Ask(To(path), {}, Deadline(kPatience), most), content) ? 1 : 0;
        right += IsRight(client.Ask(To("/echo", "POST"), content, Deadline(kPatience), most), content) ? 1 : 0;
      }
    });
    if (!started) return Fail("no fiber");
  }
  scope.Wait();
  std::cout << right << " of " << 2 * kFibers * kRounds << " answers are right" << std::endl;
  return right == 2 * kFibers * kRounds ? 0 : 1;
}

int ReadInterrupted(Http2Client& client, const std::string& path) {
  Http2Call call;
  if (const auto error = client.OpenWithoutBody(To(path), &call, Deadline(kPatience))) return Fail("Open", error);
  char piece[1000];
  const weft::io::IoResult first = call.AwaitAnswer() ? weft::io::IoResult{} : call.Read(piece, sizeof(piece));
  if (first.bytes == 0) return Fail("no part of the answer", first.error);
  SayAndAwaitALine("reading");
  weft::io::IoResult got;
  do {
    got = call.Read(piece, sizeof(piece));
  } while (got.ok() && got.bytes != 0);
  if (got.ok()) return Fail("the answer was whole");
  if (client.IsOpen()) return Fail("the connection is open after", got.error);
  Http2Call next;
  const std::error_code refused = client.OpenWithoutBody(To(path), &next, Deadline(kPatience));
  return refused == Http2Errc::kNotBegun ? 0 : Fail("the next call", refused);
}

int AskLate(Http2Client& client, const std::string& path) {
  const Http2Answer first = client.Ask(To(path), {}, Deadline(kPatience));
  if (first.error) return Fail("the first call", first.error);
  SayAndAwaitALine("answered");
  const Http2Answer late = client.Ask(To(path), {}, Deadline(100ms));
  if (late.error != std::errc::timed_out) return Fail("the second call", late.error);
  SayAndAwaitALine("late");
  return IsRight(client.Ask(To(path), {}, Deadline(kPatience)), first.body) ? 0 : 1;
}

int Run(const weft::io::SocketAddress& server, const std::string& command, const std::string& path,
        const std::string& file) {
  weft::io::TcpStream stream;
  if (const std::error_code error = stream.Connect(server, kPatience)) return Fail("Connect", error);
  // A server that is stopped is found by a ping; one that is only late is not to be given up.
  Http2Client client(weft::interop::Http2Transport(stream), {.ping_after = command == "interrupted" ? 2s : 0s});
  if (!client.Start()) return Fail("Start");
  if (command == "ask") return AskMany(client, path, file);
  return command == "late" ? AskLate(client, path) : ReadInterrupted(client, path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  const auto server = weft::io::SocketAddress::Parse(std::string("127.0.0.1:") + argv[1]);
  if (!server) return 2;
  weft::RuntimeOptions options;
  options.concurrency_hint = options.scheduling_group_size = std::stoi(argv[2]);
  weft::StartRuntime(options);
  const int status = Run(*server, argv[3], argv[4], argc > 5 ? argv[5] : "");
  weft::TerminateRuntime();
  return status;
}
