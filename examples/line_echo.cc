// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An echo server, the one of Polyphony's documentation: one fiber accepts, and starts a fiber for each client, which
// answers line by line until a line says quit.
//
//   line_echo --listen=127.0.0.1:8081 &
//   nc 127.0.0.1 8081
//
// Where a fiber waits for a connection, a line or room for its answer, its worker runs the others; there is no loop
// that calls back. A signal cancels what still talks; a server that is to drain uses io::TcpServer, as the servers
// beside this one do.
// --demo: two clients of its own talk to it, and it ends.

#include <gflags/gflags.h>

#include <algorithm>
#include <cctype>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/weft.h"

DEFINE_string(listen, "127.0.0.1:8081", "Where to listen: 1.2.3.4:port. Port 0: any free one.");
DEFINE_bool(demo, false, "Talk to it by two clients, and end.");

namespace {

using weft::io::SocketAddress;
using weft::io::TcpStream;

constexpr std::size_t kLongestLine = 64 * 1024;

// Ruby's gets: the lines of a stream, each with its end.
class Lines {
 public:
  explicit Lines(TcpStream* stream) : stream_(stream) {}

  // None: the peer has finished, an error, or a line that is too long. What comes without an end of line is a line.
  std::optional<std::string> Next() {
    std::size_t looked_at = 0;
    for (;;) {
      const std::size_t end = read_.find('\n', looked_at);
      if (end != std::string::npos) return Cut(end + 1);
      looked_at = read_.size();
      if (looked_at > kLongestLine) return std::nullopt;
      char part[4096];
      const weft::io::IoResult got = stream_->ReadSome(part);
      if (!got.ok()) return std::nullopt;
      if (got.bytes == 0) return read_.empty() ? std::nullopt : std::optional(Cut(read_.size()));
      read_.append(part, got.bytes);
    }
  }

 private:
  std::string Cut(std::size_t size) {
    std::string line = read_.substr(0, size);
    read_.erase(0, size);
    return line;
  }

  TcpStream* const stream_;
  std::string read_;
};

bool SaysQuit(std::string line) {
  std::transform(line.begin(), line.end(), line.begin(), [](unsigned char c) { return std::tolower(c); });
  return line.find("quit") != std::string::npos;
}

void ServeClient(TcpStream client) {
  Lines lines(&client);
  while (const std::optional<std::string> line = lines.Next()) {
    if (!client.WriteAll(">>>you sent: " + *line).ok() || SaysQuit(*line)) return;
  }
}

// Until it is cancelled, and its clients with it.
void Serve(weft::io::TcpListener* listener) {
  weft::FiberScope clients;
  TcpStream client;
  while (!listener->Accept(&client)) {
    // If it is refused, the stream goes with what was to run, and the client sees its end.
    static_cast<void>(clients.Spawn([client = std::move(client)]() mutable {
      try {
        ServeClient(std::move(client));
      } catch (const std::exception& failure) {  // It would cancel the scope: all clients, also those still to come.
        std::cerr << "line_echo: a client: " << failure.what() << '\n';
      }
    }));
  }
}

// True: each line came back, and the connection ended after the last.
bool Talk(const SocketAddress& address, std::string_view name) {
  TcpStream server;
  if (server.Connect(address)) return false;
  Lines answers(&server);
  for (const std::string_view text : {"hello", "how are you", "QUIT"}) {
    const std::string line = std::string(text) + ", says " + std::string(name) + "\n";
    if (!server.WriteAll(line).ok()) return false;
    const std::optional<std::string> answer = answers.Next();
    if (answer != ">>>you sent: " + line) return false;
    std::cout << *answer;
  }
  return !answers.Next();
}

bool RunDemo(const SocketAddress& address) {
  bool first = false, second = false;
  weft::Fiber one([&] { first = Talk(address, "one"); });
  weft::Fiber two([&] { second = Talk(address, "two"); });
  one.Join();
  two.Join();
  return first && second;
}

int Main() {
  weft::io::TcpListener listener;
  const std::optional<SocketAddress> address = SocketAddress::Parse(FLAGS_listen);
  const std::error_code error = address ? listener.Listen(*address) : make_error_code(std::errc::invalid_argument);
  if (error) {
    std::cerr << "line_echo: cannot listen on " << FLAGS_listen << ": " << error.message() << '\n';
    return 1;
  }
  const SocketAddress here = listener.local_address();
  std::cout << "line_echo: listening on " << here.ToString() << std::endl;
  weft::FiberScope server;
  if (!server.Spawn([&listener] { Serve(&listener); })) return 1;
  if (FLAGS_demo) {
    const bool went_well = RunDemo(here);
    server.Cancel();
    return went_well ? 0 : 1;
  }
  server.Wait();
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return weft::Run(argc, argv, Main); }
